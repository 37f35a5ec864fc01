"""How settings of accelerate, DeepSpeed and FSDP are called in a table, wherever they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.importer.given import Given
from planner.importer.kinds import flat

PREFIX = "accelerate."
KIND = "accelerate.distributed_type"
STAGE = "deepspeed.zero_optimization.stage"
FILES = ("deepspeed", "accelerate.deepspeed_config.deepspeed_config_file")
"""Settings whose text is the path of DeepSpeed's file."""
DEEPSPEED = {
    "zero_stage": "zero_optimization.stage",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "gradient_clipping",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
}
"""accelerate's words for DeepSpeed's (``plugin_to_config_mapping`` of its DeepSpeedPlugin)."""
SECTIONS = {
    "fsdp_": "fsdp_config.",
    "dynamo_": "dynamo_config.",
    "parallelism_config_": "parallelism_config.",
    "megatron_lm_": "megatron_lm_config.",
    "fp8_": "fp8_config.",
}
"""Where a flag of ``accelerate launch`` stands in its file, by how it begins."""
KINDS = {
    "multi_gpu": "MULTI_GPU",
    "use_fsdp": "FSDP",
    "use_deepspeed": "DEEPSPEED",
    "use_megatron_lm": "MEGATRON_LM",
    "tpu": "XLA",
}
"""Flags that say how processes share, as ``distributed_type`` has it."""
BY_TRAINER: Mapping[str, Any] = {
    KIND: "FSDP",
    "accelerate.fsdp_config.fsdp_version": 2,
    "accelerate.fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}
"""What is taken for want of a word where TrainingArguments ask for FSDP (``_process_fsdp_args`` of
transformers 5.23.0), and not accelerate."""


def of_accelerate(givens: Iterable[Given], names: Iterable[str]) -> Iterator[Given]:
    """Entries of accelerate's file, or flags of its command, by the names that a table has."""
    short = {name.rpartition(".")[2]: name for name in names if name.startswith(PREFIX)}
    for one in flat(givens):
        if one.name in KINDS and str(one.value) == "True":
            yield replace(one, name=KIND, value=KINDS[one.name])
        elif one.name in ("cpu", "use_cpu"):
            yield replace(one, name="use_cpu")
        elif one.name.startswith(PREFIX):
            yield one
        elif one.name not in KINDS:
            yield replace(one, name=_long(one.name, short))


def _long(name: str, short: Mapping[str, str]) -> str:
    section, _, last = name.rpartition(".")
    if last in DEEPSPEED and section in ("", "deepspeed_config"):
        return f"deepspeed.{DEEPSPEED[last]}"
    begins = next((start for start, own in SECTIONS.items() if own == f"{section}."), "")
    if begins and not last.startswith(begins.rstrip("_")):
        last = begins + last  # accelerate's file may leave it out
    if last in short:
        return short[last]
    where = next((own for start, own in SECTIONS.items() if last.startswith(start)), "")
    return f"{PREFIX}{f'{section}.' if section else where}{last}"


def of_trainer(one: Given) -> Given:
    """An entry of TrainingArguments' ``fsdp_config``, as accelerate's file has it."""
    section, _, last = one.name.partition(".")
    if section != "fsdp_config" or not last:
        return one
    plain = {"cpu_offload": "offload_params"}.get(last, last).removeprefix("fsdp_")
    return replace(one, name=f"accelerate.fsdp_config.fsdp_{plain}")


def shared(
    told: Iterable[Given], inside: Callable[[Given], Iterable[Given]]
) -> tuple[list[Given], dict[str, Any]]:
    """All settings with those of DeepSpeed's file; and defaults that who shards decides.

    Args:
        told: in the order in which the last word counts.
        inside: what is in the file that a setting names.
    """
    defaults: dict[str, Any] = {}
    found: list[Given] = []
    for one in told:
        found.append(one)
        if one.name in FILES and isinstance(one.value, str) and not one.opens:
            defaults[KIND] = "DEEPSPEED"
            own = flat(inside(one))
            found += [replace(each, name=f"deepspeed.{each.name}") for each in own]
        elif one.name == "fsdp" and str(one.value) not in ("None", "", "False", "[]"):
            defaults |= BY_TRAINER
            found += _words(one)
    kinds = [one for one in found if one.name == KIND]
    configured = any(one.name.startswith("deepspeed.") for one in found)
    if configured and not kinds:
        defaults[KIND] = "DEEPSPEED"
    elif kinds and kinds[-1].value == "DEEPSPEED" and not configured:
        defaults[STAGE] = 2  # DeepSpeedPlugin of accelerate 1.15.0, utils/dataclasses.py:1238
    return found, defaults


def _words(one: Given) -> Iterator[Given]:
    """Transformers' older way to ask for FSDP: ``full_shard auto_wrap offload``."""
    words = one.value if isinstance(one.value, list) else str(one.value).split()
    if "offload" in words:
        yield replace(one, name="accelerate.fsdp_config.fsdp_offload_params", value=True)
    if "shard_grad_op" in words:
        yield replace(one, name="accelerate.fsdp_config.fsdp_reshard_after_forward", value="false")
