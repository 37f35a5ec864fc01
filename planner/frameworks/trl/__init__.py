"""TRL: what its trainers do, read from the wheels 1.9.0 to 1.16.0 (2026-10).

Defaults are 1.16.0's, but for ``reduce_dtype`` and ``max_num_batched_tokens``, which accelerate
and TRL's colocated engine fix.
"""

from collections.abc import Mapping
from typing import Any

from planner.frameworks.trl.words import BESIDE, WORDS, batch_options, sequences_at_once
from planner.rule import Rule
from planner.units import GIB, MIB
from planner.values.framework import Framework, HostSide
from planner.values.loss_code import LossCode

NEWEST = "1.16.0"


def _on_logits(version: str, *, one_kernel: bool) -> LossCode:
    """Until 1.14 policies score responses on materialised logits, in a loop or one kernel."""
    entropy = (
        f"an entropy bonus in trl {version} is not modelled; "
        "use framework_version 1.14.0 or later, or set entropy to false"
    )
    return LossCode(
        name=f"trl {version}",
        # ``fused`` is the default of every version's plans, whatever this one runs.
        paths={"response": "response", "fused": "response"},
        cross_entropy_paths={"chunked": "chunked", "fused": "chunked"},
        planned_as={"fused": f"TRL {version}'s own, which has no fused head"},
        itself="whole logits of the responses",
        older=("full",),
        formulas={"response": "responses", "chunked": "responses"},
        no_cross_entropy=(
            f"framework_version {version} of trl runs SFT in chunks of 256 "
            "tokens that are not modelled here; use 1.15.0 or later"
        ),
        no_entropy="" if one_kernel else entropy,
        one_kernel=one_kernel,
    )


def _fused(version: str) -> LossCode:
    """From 1.15 every trainer runs the fused head."""
    return LossCode(
        name=f"trl {version}",
        paths={"fused": "fused"},
        itself="tiles of 4,096 tokens",
        older=("full", "response"),
        formulas={"fused": "tiles"},
        always_entropy=True,
        triton_tiles=True,
        casts_by_tile=True,
        gathers_scored_rows=True,
    )


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


FRAMEWORK = Framework(
    name="trl",
    label="TRL",
    order=1,
    versions=(NEWEST, "1.14.0"),
    loop_read="trl 1.9.0 to 1.16.0, trl/trainer/{sft,dpo,grpo,rloo}_trainer.py, over transformers "
    "5.23, Trainer.training_step",
    loss={
        "1.9.0": _on_logits("1.9.0", one_kernel=False),
        "1.12.0": _on_logits("1.12.0", one_kernel=False),
        "1.13.0": _on_logits("1.13.0", one_kernel=False),
        "1.14.0": _on_logits("1.14.0", one_kernel=True),
        "1.15.0": _fused("1.15.0"),
        NEWEST: _fused(NEWEST),
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
    scores_reference_in_loss=True,
    autocasts_adapters=True,
    # models/utils.py, use_adapter: peft's set_adapter.
    answering_adapter_requires_gradients=True,
    reference_loaded_like_policy=True,
    widens_as_it_shards=True,
    reference_requires_gradients=True,
    reference_streamed=True,
    # scripts/grpo.py: dtype of model_init_kwargs, which the reward model's loading is given, too.
    reward_loaded_like_policy=True,
    # grpo_trainer.py: accelerate's prepare_model(…, evaluation_mode=True), which wraps nothing.
    reward_whole=True,
    wraps_flat=True,
    # models/utils.py, prepare_fsdp: under FSDP1 the reference has the policy's units.
    reference_gathered_whole=True,
    head_stays_gathered=True,
    liger_patches_trained_only=True,
    # OffloadActivations' max_fwd_stash_size, which no trainer changes.
    offload_stash=5,
    widens_moments_of_embeddings=True,
    reduces_once_an_update=True,
    # Until its server was vLLM's own (pull request 6765), update_named_param for every weight.
    sends_each_weight=("1.14.0",),
    packed_sync_bytes=GIB,
    # _generate_and_score_completions pads what split_tensor_dict then cuts.
    pads_rollout=True,
    # prediction_step: _prepare_inputs generates for one eval batch, then compute_loss.
    validates_by_micro_batch=True,
    # A separate engine is a server with a worker for each GPU; a colocated one is the rank itself.
    # trl 1.16.0 METADATA: transformers>=4.56.2; 5.0 is the first to group experts.
    looped_experts=("transformers before 5, which TRL takes", 1),
    host=HostSide(
        imports_bytes=334 * MIB,
        # VLLMGeneration.sync_weights: merge_adapter, load_weights, unmerge_adapter.
        engine_merges_adapters=True,
        engine_helpers=1,
        pins_activations=True,
        # cpu_ram_efficient_loading or not: transformers 5.23 reads on every rank, and accelerate's
        # fsdp2_prepare_model makes what trains fp32 there before it shards.
        fsdp_readers="all",
        # create_model_from_path: device_map "auto" where no launcher started several.
        alone_reads_to_gpu=True,
        # transformers 5.23 Trainer._save_checkpoint, unless save_only_model.
        saves_optimizer=True,
        # _save_optimizer_and_scheduler: save_fsdp_model, DeepSpeed's save_checkpoint.
        saves_weights_again=True,
        # save_model: accelerate's get_state_dict of all, whatever PeftModel then writes.
        gathers_frozen=True,
    ),
)
