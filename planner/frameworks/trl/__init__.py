"""TRL: what its trainers do, read from the wheels 1.9.0 to 1.16.0 (2026-10).

Defaults are 1.16.0's, but for ``reduce_dtype`` and ``max_num_batched_tokens``, which accelerate
and TRL's colocated engine fix.
"""

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl.words import BESIDE, WORDS, batch_options, sequences_at_once
from planner.numeric import Num
from planner.rule import Rule
from planner.units import GIB, MIB
from planner.values.framework import Framework, Sync, loaded_narrow, read_by_all
from planner.values.loss_code import LossCode
from planner.values.model_setup import ModelSetup
from planner.values.sharding import sharding_of

NEWEST = "1.16.0"


OLDER = "as older releases"


def _on_logits(version: str, how: str) -> LossCode:
    """Until 1.14 policies score responses on materialised logits, in a loop or one kernel."""
    return LossCode(
        # ``fused`` is the default of every version's plans, whatever this one runs.
        paths=dict.fromkeys(("response", "fused"), f"responses in {how}"),
        told={"fused": f"TRL {version}'s own, which has no fused head", "full": OLDER},
    )


FUSED = LossCode(
    paths={"fused": "tiles in a kernel"}, told=dict.fromkeys(("full", "response"), OLDER)
)
"""From 1.15 every trainer runs the fused head."""


def _defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Peft casts the adapters of 4-bit weights to their dtype.

    accelerate's FSDP and DeepSpeed reduce in the compute dtype where nobody says otherwise
    (``set_mixed_precision``, ``communication_data_type``); DDP asks for none.
    """
    return {
        "logits": "fused",
        "gpu_memory_utilization": 0.3,
        "master_dtype": "none" if values.get("finetuning") == "qlora" else "fp32",
        "reduce_dtype": values.get("dtype", "bf16"),
        "max_num_batched_tokens": 4096,
    }


def _models(plan: Any, model: ModelSetup) -> Mapping[str, Any]:
    """Of every model but a trained one; the policy's second adapter is like its reference.

    models/utils.py, use_adapter: peft's set_adapter makes the one that answers require gradients,
    and nothing freezes a whole reference, which is loaded as the policy is: fp32 beside an fp32
    master that is not made as weights are sharded. FSDP streams an offloaded one from host RAM. So
    is a reward model loaded (scripts/grpo.py: dtype of model_init_kwargs), and accelerate's
    prepare_model(…, evaluation_mode=True) of grpo_trainer.py wraps nothing. models/utils.py,
    prepare_fsdp: under FSDP1 the reference has the policy's units. Liger's kernels reach the
    trained model; a reference that stands by then has none.
    """
    sharding, full = sharding_of(plan), plan.finetuning == "full"
    found = {**loaded_narrow(plan, model), "requires_gradients": frozenset({"weights"})}
    if model.trained:
        return found
    wide = plan.master_dtype == "fp32" and sharding.replicated if full else False
    if model.role == "reward model":
        wide = wide if full else plan.base_dtype == "fp32"
        found["spread"] = "not"
    elif sharding.fsdp:
        found["spread"] = "whole" if sharding.fsdp == 2 else "layers"
        found["waits"] = "host, streamed" if model.waits == "host" else model.waits
    return {**found, "liger": False, "stored": "fp32" if wide else plan.dtype}


def _copies(plan: Any, ranks: Num, tied: bool) -> tuple[Num, Num]:
    """Where no launcher started several, device_map "auto" reads to the GPU.

    create_model_from_path; of several ranks fsdp2_prepare_model makes what trains fp32 on each.
    """
    kept, most = read_by_all(plan, ranks, tied)
    several = plan.gpus - plan.rollout_gpus > 1
    return kept * several, most * several


def _sync(plan: Any) -> Sync:
    """VLLMGeneration.sync_weights: merge_adapter, load_weights, unmerge_adapter.

    Until its server was vLLM's own (pull request 6765), update_named_param for every weight.
    """
    if plan.rollout != "vllm-separate":
        return "weights", "each", 0
    if plan.framework_version == "1.14.0":
        return "weights", "asked", 0
    return "weights", "packed", GIB


FRAMEWORK = Framework(
    name="trl",
    label="TRL",
    order=1,
    versions=(NEWEST, "1.14.0"),
    loop_read="trl 1.9.0 to 1.16.0, trl/trainer/{sft,dpo,grpo,rloo}_trainer.py, over transformers "
    "5.23, Trainer.training_step",
    loss={
        **{each: _on_logits(each, "a loop") for each in ("1.9.0", "1.12.0", "1.13.0")},
        "1.14.0": _on_logits("1.14.0", "one kernel"),
        "1.15.0": FUSED,
        NEWEST: FUSED,
    },
    defaults=_defaults,
    words=WORDS,
    beside=BESIDE,
    batch_options=batch_options,
    settled=sequences_at_once,
    rules=(
        Rule(
            "optimizer_step",
            lambda p: p.optimizer_step == "in-backward",
            "TRL's optimizer steps after the backward.",
            "Set optimizer_step to update, or framework to plain.",
        ),
        Rule(
            "rollout_overlap",
            lambda p: p.rollout_overlap != "synchronous",
            "TRL's trainers wait for their rollouts; TRL's experimental asynchronous trainer is "
            "not modelled.",
            "Set rollout_overlap to synchronous, or framework to plain or verl.",
        ),
        Rule(
            "resampling_factor",
            lambda p: p.resampling_factor != 1,
            "TRL trains on every response that it samples.",
            "Set resampling_factor to 1, or framework to plain or verl.",
        ),
        Rule(
            "base_dtype",
            lambda p: p.base_dtype == "fp32" and p.finetuning == "qlora",
            "With QLoRA, TRL's trainers leave weights that are not 4-bit in the model's dtype.",
            "Set base_dtype to compute, or framework to plain.",
        ),
        # sft_trainer.py, line 1069, and the others alike.
        Rule(
            "lora_targets",
            lambda p: p.finetuning != "full" and "lm_head" in p.lora_targets,
            "TRL stops: applying a PEFT adapter to lm_head is not supported, since it would never "
            "be trained.",
            "Remove lm_head from lora_targets.",
        ),
        Rule(
            "liger",
            lambda p: p.liger and p.framework_version != NEWEST,
            f"Before version {NEWEST}, TRL's liger option also replaces the loss, which is not "
            "modelled.",
            f"Set framework_version to {NEWEST}, or liger to false.",
        ),
    ),
    autocasts_adapters=True,
    models=_models,
    units=(("embedding",), ("norm", "head")),
    widens_moments_of_embeddings=True,
    reduces_once_an_update=True,
    sync=_sync,
    # _generate_and_score_completions pads what split_tensor_dict then cuts.
    pads_to="rollout",
    # prediction_step: _prepare_inputs generates for one eval batch, then compute_loss.
    validates="by micro-batch",
    # trl 1.16.0 METADATA: transformers>=4.56.2; 5.0 is the first to group experts.
    looped_experts=("transformers before 5, which TRL takes", 1),
    host_bytes={"process": 334 * MIB},
    # A separate engine is a server with a worker for each GPU; a colocated one is the rank itself.
    helpers={"vllm-separate": 1},
    # OffloadActivations' max_fwd_stash_size, which no trainer changes.
    pinned={"activations": 5},
    copies=_copies,
    # transformers 5.23 Trainer._save_checkpoint, unless save_only_model, and
    # _save_optimizer_and_scheduler: save_fsdp_model, DeepSpeed's save_checkpoint. save_model:
    # accelerate's get_state_dict of all, whatever PeftModel then writes.
    checkpoint="state",
)
