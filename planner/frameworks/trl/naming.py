"""Other spellings of settings: older names, classes of a Python script, accelerate's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.frameworks.trl.rows import row
from planner.importer.given import Given
from planner.launch.huggingface import accelerate
from planner.launch.huggingface.resolved import Values
from planner.values.setting import Setting


def _prompt(value: int | None, values: Values) -> Mapping[str, Any]:
    return {"prompt_tokens": int(value)} if value else {}


OLDER: tuple[Setting, ...] = (
    row(
        "trainer/grpo_config.py of 0.29 and before:max_prompt_length",
        *("max_prompt_length", None, "prompt_tokens"),
        read=_prompt,
        unit="tokens",
    ),
)
"""What older releases took, and what people's scripts still say."""

RENAMED = {
    "torch_dtype": "dtype",
    "evaluation_strategy": "eval_strategy",
    "max_seq_length": "max_length",
    "model_init_kwargs.dtype": "dtype",
    "model_init_kwargs.torch_dtype": "dtype",
    "model_init_kwargs.attn_implementation": "attn_implementation",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
}
"""Of other releases, or of what a trainer hands on to ``from_pretrained``."""

PEFT = {
    "r": "lora_r",
    "target_modules": "lora_target_modules",
    "target_parameters": "lora_target_parameters",
    "modules_to_save": "lora_modules_to_save",
    "task_type": "lora_task_type",
    "bnb_4bit_use_double_quant": "use_bnb_nested_quant",
}
"""Arguments of ``LoraConfig`` and ``BitsAndBytesConfig`` under the names of TRL's ModelConfig."""

MODEL = ("model_name_or_path", "reward_model_name_or_path")
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

_BY_TRAINER = {
    "accelerate.distributed_type": "FSDP",
    "accelerate.fsdp_config.fsdp_version": 2,
    "accelerate.fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
}
FSDP: Mapping[str, Mapping[str, Any]] = {"fsdp": _BY_TRAINER}
"""What transformers takes for want of a word where its own arguments ask for FSDP
(``_process_fsdp_args``), not accelerate."""


def as_settings(givens: Iterable[Given]) -> Iterator[Given]:
    """Names as the table has them; what is below ``env`` sets variables, and is not taken."""
    for one in flat(givens):
        name = RENAMED.get(one.name, one.name)
        section, _, last = name.partition(".")
        if section == "fsdp_config" and last:
            plain = {"cpu_offload": "offload_params"}.get(last, last).removeprefix("fsdp_")
            name = f"accelerate.fsdp_config.fsdp_{plain}"
        yield replace(one, name=name)


def flat(givens: Iterable[Given]) -> Iterator[Given]:
    """A mapping as its entries, to any depth that a file has."""
    for one in givens:
        if isinstance(one.value, Mapping) and one.value:
            inside = (
                replace(one, name=f"{one.name}.{name}", value=value)
                for name, value in one.value.items()
            )
            yield from flat(inside)
        else:
            yield one


def of_script(givens: Iterable[Given]) -> Iterator[Given]:
    """Arguments by class, as settings; a class that is none of a trainer's keeps its name."""
    adapters = False
    for one in flat(givens):
        owner, _, name = one.name.partition(".")
        if owner in ("LoraConfig", "BitsAndBytesConfig"):
            if owner == "LoraConfig" and not adapters:
                adapters = True
                yield Given("use_peft", True, one.place)
            known = name in PEFT or name.startswith(("lora_", "load_in_", "use_", "bnb_"))
            found = PEFT.get(name, name) if known else one.name
        elif owner.endswith("Trainer") and name == "model":
            found = "model_name_or_path"
        elif owner.endswith("from_pretrained"):
            found = {"": "model_name_or_path", "dtype": "dtype"}.get(name, name)
        elif owner.endswith(("Config", "Arguments")):
            found = name
        else:
            found = one.name
        yield from as_settings([replace(one, name=found)])


def of_accelerate(givens: Iterable[Given]) -> Iterator[Given]:
    """Entries of accelerate's file, or flags of its command, by the names of our table."""
    for one in flat(givens):
        if one.name.startswith("accelerate."):
            yield one
            continue
        if one.name in KINDS and str(one.value) == "True":
            yield replace(one, name="accelerate.distributed_type", value=KINDS[one.name])
        elif one.name in ("cpu", "use_cpu"):
            yield replace(one, name="use_cpu")
        elif one.name not in KINDS:
            yield replace(one, name=_of_accelerate(one.name))


def _of_accelerate(name: str) -> str:
    section, _, last = name.rpartition(".")
    if last in DEEPSPEED and section in ("", "deepspeed_config"):
        return f"deepspeed.{DEEPSPEED[last]}"
    begins = next((start for start, own in SECTIONS.items() if own == f"{section}."), "")
    if begins and not last.startswith(begins.rstrip("_")):
        last = begins + last
    names = {row.name.rpartition(".")[2]: row.name for row in accelerate.ROWS}
    if last in names:
        return names[last]
    where = next((own for start, own in SECTIONS.items() if last.startswith(start)), "")
    own = f"{section}." if section else where
    return f"{accelerate.PREFIX}{own}{last}"
