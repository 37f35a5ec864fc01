"""TRL and ms-swift: user reports and header comments of scripts."""

from __future__ import annotations

from typing import Any

from accuracy.prediction import Mapping, Predicted, Unpredicted
from accuracy.quantity import Addition, Answer, peak, scene
from planner.formulas import sharding
from planner.formulas.logits import Head, backward_instants, forward_instants
from planner.plan import Plan
from planner.term import Instant
from planner.values.loss_code import WAYS

BF16_BYTES = 2
FP32_BYTES = 4
BEFORE_BYTES = 44 * 10**6
"""Allocated before the forward of TRL#3678, published beside its peak."""
LENGTHS = "the script states max_length, and not how long its rows are, which decides a DPO step"


def _swift_ppo(plan: Plan | None) -> Answer:
    assert plan is not None
    critic = scene(plan).critic
    assert critic is not None
    gathered = sharding.WHOLE_COPY.value(parameters=critic.parameters, value_bytes=BF16_BYTES)
    why = "the critic gathered whole too: TRL's PPO wraps both models in one before generating"
    return peak(plan, "device", None, additions=(Addition(bytes=int(gathered), why=why),))


def _highest(instants: tuple[Instant, ...]) -> tuple[int, str]:
    sums = [(sum(int(t.bytes) for t in i.everything), i.name) for i in instants]
    return max(sums)


def _log_prob_forward(_: Plan | None) -> Answer:
    """Two rows of 256 scored tokens and one more each, policies' code up to 1.13."""
    head = Head(
        tokens=2 * 257,
        rows=2,
        vocab=151_665,
        hidden=8,
        logits_dtype="fp32",
        weight_trains=True,
        way=WAYS["responses in a loop"],
    )
    size, name = _highest(forward_instants(head, objective="policy", role="policy"))
    return Answer(bytes=BEFORE_BYTES + size, where=f"head: {name}")


def _naive_head(_: Plan | None) -> Answer:
    """Hugging Face's loss with its output named, the weight and the hidden states."""
    tokens, vocab, hidden = 8192, 151_936, 4096
    head = Head(
        tokens=tokens,
        rows=1,
        vocab=vocab,
        hidden=hidden,
        logits_dtype="fp32",
        weight_trains=True,
        way=WAYS["full"],
        logits_held=True,
    )
    size, name = _highest(
        (
            *forward_instants(head, objective="cross-entropy", role="policy"),
            *backward_instants(head, objective="cross-entropy", role="policy"),
        )
    )
    whole = size + BF16_BYTES * hidden * (vocab + tokens)
    wider = (FP32_BYTES - BF16_BYTES) * tokens * vocab
    return Answer(
        bytes=whole,
        where=f"head: {name}",
        variants=(("the fp32 logits named, not the bf16 ones", whole + wider),),
    )


TRL_FIELDS: dict[str, Any] = {
    "model": "Qwen/Qwen3-0.6B",
    "method": "grpo",
    "framework": "trl",
    "framework_version": "1.14.0",
    "gpu": "a100-80gb",
    "gpus": 1,
    "sharding": "none",
    "dtype": "fp32",
    "master_dtype": "none",
    "prompts_per_step": 1,
    "responses_per_prompt": 8,
    "micro_batch_size": 4,
    "prompt_tokens": 2048,
    "response_tokens": 1024,
    "batch_shape": "padded",
    "gradient_checkpointing": "none",
    "optimizer": "adamw-foreach",
    "rollout": "hf",
    "kl": "loss",
    "logits": "response",
}


def _trl_device(plan: Plan | None) -> Answer:
    """TRL#3456, and the other precision its report may have used: bf16 autocast."""
    assert plan is not None
    autocast = Plan(**{**TRL_FIELDS, "dtype": "bf16", "master_dtype": "fp32"})
    other = ("bf16=True (autocast)", peak(autocast, "device", None).bytes)
    return peak(plan, "device", None, variants=(other,))


def mappings() -> tuple[Mapping, ...]:
    """Every TRL and ms-swift row."""
    return (
        Predicted(
            id="trl-3456-0.6B",
            level="device",
            fields=TRL_FIELDS,
            answer=_trl_device,
            comparable="approximate",
            assumed="TRL 1.14.0, the nearest version whose code was read, for 0.17. The rest "
            "is 0.17's default: fp32, no checkpointing, a reference copy, 8 responses, generation "
            "by transformers.",
            note="The report states neither the precision nor the lengths its rows reached; the "
            "estimate is for the caps.",
        ),
        Predicted(
            id="swift-ppo-full",
            level="device",
            fields={
                "model": "meta-llama/Llama-3.1-8B",
                "method": "ppo",
                "gpu": "a100-80gb",
                "gpus": 8,
                "sharding": "zero3",
                "prompts_per_step": 16,
                "micro_batch_size": 1,
                "prompt_tokens": 1536,
                "response_tokens": 512,
                "batch_shape": "padded",
                "gradient_checkpointing": "full",
                "logits": "full",
                "reference": "copy",
                "reward": "model",
                "kl": "reward",
                "rollout": "hf",
            },
            answer=_swift_ppo,
            comparable="approximate",
            assumed="plain step with ZeRO-3 for ms-swift on TRL's PPO; A100 80 GB for a card of 80 "
            "GB that is not named; 1,536 of max_length 2,048 for the prompt.",
            note="The script's comment is a whole number without a method, likely of nvidia-smi.",
        ),
        Predicted(
            id="trl-3678-logprob-forward",
            level="requested",
            fields=None,
            answer=_log_prob_forward,
            comparable="like for like",
            assumed="policy scoring of TRL 1.13.0 and earlier on fp32 logits (the report's 310 MB "
            "are the fp32 size); its 44 MB from before the forward are added.",
        ),
        Predicted(
            id="trl-7244-naive",
            level="requested",
            fields=None,
            answer=_naive_head,
            comparable="approximate",
            assumed="ForCausalLMLoss with the model's output named; weight and hidden states in "
            "bf16 are added. The script is not published.",
            note="What the script keeps alive is not known; one tensor over the vocabulary in fp32 "
            "is 4.6 GiB here.",
        ),
        Unpredicted(
            id="trl-7244-chunked-nll",
            reason="TRL's chunks of 256 tokens of that version project in fp32 (changed since, "
            "TRL#6863); none of the modelled paths is that code",
        ),
        Unpredicted(
            id="trl-7244-liger",
            reason="Liger's fused linear cross entropy is not modelled; its kernels of layers are",
        ),
        Unpredicted(id="swift-dpo-full-padfree", reason=LENGTHS),
        Unpredicted(id="swift-dpo-lora", reason=LENGTHS),
        Unpredicted(id="swift-gkd-vllm", reason="distillation (GKD) is not a method of a plan"),
    )
