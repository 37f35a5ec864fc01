"""verl's training logs: static state per stage, and one whole PPO step."""

from __future__ import annotations

from typing import Any

from accuracy.prediction import Mapping, Predicted, Unpredicted
from accuracy.quantity import UPDATE, Answer, named, peak
from planner.plan import Plan

SCORING = ("old log-probs", "reference log-probs", "values", "critic update")


def _static(plan: Plan | None) -> Answer:
    """Weights that stand on the GPU before the engine starts, by role."""
    assert plan is not None
    policy, critic, reference = (
        named(plan, "load", "weights", role) for role in ("policy", "critic", "reference")
    )
    return Answer(
        bytes=policy + critic + reference,
        where="load: sum of weights",
        stages=(("after_critic_fsdp", critic),),
    )


def _step(plan: Plan | None) -> Answer:
    assert plan is not None
    return peak(plan, "allocated", (*SCORING, *UPDATE))


def _ppo(**more: Any) -> dict[str, Any]:
    return {
        "method": "ppo",
        "gpu": "a100-80gb",
        "sharding": "fsdp1",
        "rollout": "vllm-colocated",
        "gpu_memory_utilization": 0.4,
        "responses_per_prompt": 1,
        "batch_shape": "padded",
        **more,
    }


def mappings() -> tuple[Mapping, ...]:
    """Every verl row."""
    lengths = {"prompt_tokens": 1024, "response_tokens": 512, "gradient_checkpointing": "none"}
    return (
        Predicted(
            id="verl-log-Qwen2.5-0.5B-bsz256_2-prompt1024-resp512-0.567",
            level="requested",
            fields=_ppo(
                model="Qwen/Qwen2.5-0.5B",
                gpus=1,
                prompts_per_step=256,
                prompts_per_update=64,
                micro_batch_size=2,
                reference="copy",
                **lengths,
            ),
            answer=_static,
            comparable="like for like",
            assumed="planned as plain: verl of that time kept its reference in bf16, and the log's "
            "stages show it on the GPU. The figure is the sum of the weights after loading.",
        ),
        Predicted(
            id="verl-log-gemma2-2b-ppo",
            level="requested",
            fields=_ppo(
                model="google/gemma-2-2b",
                gpus=2,
                attention="flash",
                prompts_per_step=512,
                prompts_per_update=128,
                micro_batch_size=4,
                reference="offloaded",
                rollout_tensor_parallel=2,
                **lengths,
            ),
            answer=_static,
            comparable="like for like",
            assumed="planned as plain; the log's stages show no reference on the GPU.",
        ),
        Predicted(
            id="verl-note-0.5b-ppo-1gpu",
            level="allocated",
            fields=_ppo(
                framework="verl",
                model="Qwen/Qwen2.5-0.5B",
                gpus=1,
                prompts_per_step=256,
                prompts_per_update=64,
                micro_batch_size=4,
                logprob_micro_batch_size=8,
                prompt_tokens=512,
                response_tokens=256,
                reference="offloaded",
            ),
            answer=_step,
            comparable="approximate",
            assumed="verl 0.9.1 for verl 0.5; checkpointing on and padded rows, its defaults; card "
            "not stated (the trainer's own allocations do not depend on it).",
            note="verl 0.5 sliced its padded logits to the response before softmax and entropy; "
            "0.9.1 scores the packed row, prompt tokens included, which decides the peak here. "
            "The metric reported back then may also include the sleeping engine's memory.",
        ),
        Unpredicted(
            id="verl-7826-fused",
            reason="trained with Megatron (tensor and expert parallelism), which is not modelled",
        ),
    )
