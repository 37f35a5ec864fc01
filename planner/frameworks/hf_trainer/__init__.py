"""transformers' own Trainer, with accelerate and DeepSpeed: read from the wheels of 2026-11.

transformers 5.23.0, accelerate 1.15.0, peft 0.21.2. The model itself computes the loss, so that a
plan of it is one that a person writes around ``Trainer(model, args, …)`` without a loss of theirs.
"""

from collections.abc import Mapping
from typing import Any

from planner.frameworks.hf_trainer.words import BESIDE, WORDS, batch_options
from planner.rule import Rule
from planner.units import MIB
from planner.values.framework import Framework, loaded_narrow, read_by_all
from planner.values.loss_code import LossCode
from planner.values.sharding import SHARDINGS

VERSION = "5.23.0"


def _defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """TrainingArguments' own (training_args.py), and what from_pretrained does.

    Neither bf16 nor activation_checkpointing is on (lines 908, 958), and weights are loaded in the
    checkpoint's dtype, which is the compute dtype then (modeling_utils.py, ``dtype`` is "auto").
    peft makes adapters in fp32 beside them (``autocast_adapter_dtype``), DeepSpeed fp32 copies, and
    the fp16 loss scaler asks for fp32 gradients. accelerate's FSDP and DeepSpeed reduce in the
    compute dtype; DDP asks for none.
    """
    wide = values.get("finetuning", "full") != "full" or values.get("dtype") == "fp16"
    wide = wide or getattr(SHARDINGS.get(str(values.get("sharding"))), "zero", 0) > 0
    return {
        "logits": "full",
        "logits_dtype": "fp32",
        "master_dtype": "fp32" if wide else "none",
        "reduce_dtype": values.get("dtype", "bf16"),
        "gradient_checkpointing": "none",
    }


FRAMEWORK = Framework(
    name="hf_trainer",
    label="Transformers Trainer",
    order=3,
    versions=(VERSION,),
    loop_read="transformers 5.23.0, trainer.py, lines 1708 to 2120 (_prepare_for_training, "
    "_run_epoch, training_step) and 2122 to 2210 (compute_loss); loss/loss_utils.py, "
    "ForCausalLMLoss; accelerate 1.15.0, accelerator.py, prepare_model",
    loss={VERSION: LossCode(paths={"full": "whole rows"})},
    defaults=_defaults,
    words=WORDS,
    beside=BESIDE,
    batch_options=batch_options,
    rules=(
        Rule(
            "batch_shape",
            lambda p: p.batch_shape == "packed",
            "Transformers' Trainer packs no rows: its collators pad them.",
            "Set batch_shape to padded or full, or framework to trl.",
        ),
        Rule(
            "max_tokens_per_micro_batch",
            lambda p: p.max_tokens_per_micro_batch > 0,
            "Transformers' Trainer batches by rows, never by tokens.",
            "Set max_tokens_per_micro_batch to 0.",
        ),
        Rule(
            "optimizer_step",
            lambda p: p.optimizer_step == "in-backward",
            "Transformers' Trainer steps after the backward.",
            "Set optimizer_step to update, or framework to plain.",
        ),
        Rule(
            "finetuning",
            lambda p: p.finetuning == "qlora",
            "Transformers' Trainer leaves 4-bit weights to the script around it, and scripts "
            "differ in which dtypes they cast adapters and norms to.",
            "Set finetuning to lora, or framework to trl.",
        ),
        Rule(
            "lora_targets",
            lambda p: p.finetuning != "full" and "lm_head" in p.lora_targets,
            "Adapters of lm_head under Transformers' Trainer are not modelled.",
            "Remove lm_head from lora_targets.",
        ),
    ),
    autocasts_adapters=True,
    models=loaded_narrow,
    # accelerate 1.15.0, utils/fsdp_utils.py, fsdp2_prepare_model; utils/dataclasses.py.
    units=(("embedding",), ("norm", "head")),
    # trainer_optimizer.py: GlobalOptimManager's override for every nn.Embedding.
    widens_moments_of_embeddings=True,
    # trainer.py, line 749: find_unused_parameters but for a PreTrainedModel that is checkpointed.
    ddp_copies_output=lambda p: p.finetuning != "full" or p.gradient_checkpointing == "none",
    # trainer.py, line 1904: accelerator.no_sync but for an update's last micro-batch.
    reduces_once_an_update=True,
    # data_collator.py: rows are padded to the longest of their batch, which is a micro-batch.
    pads_to="micro-batch",
    host_bytes={"process": 334 * MIB},
    # from_pretrained reads on every rank, and fsdp2_prepare_model widens there.
    copies=read_by_all,
    # Trainer._save_checkpoint, unless save_only_model, and _save_optimizer_and_scheduler:
    # save_fsdp_model, DeepSpeed's save_checkpoint. save_model: accelerate's get_state_dict of all,
    # whatever PeftModel then writes.
    checkpoint="state",
)
