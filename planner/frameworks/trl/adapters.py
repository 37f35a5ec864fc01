"""Adapters and 4-bit weights, in the words of TRL's ``ModelConfig``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner import catalog
from planner.formulas.lora import ALL_LINEAR
from planner.frameworks.trl.rows import beyond, row
from planner.launch.huggingface.resolved import Values
from planner.launch.words import lora_targets
from planner.plan import Plan
from planner.values.setting import Setting

FILE = "trainer/model_config.py:{}"
TWO = "q_proj,v_proj"
PEFTS_OWN = {
    "gpt2": "c_attn",
    "gpt_neox": "query_key_value",
    **dict.fromkeys(("qwen2", "qwen3", "llama", "mistral", "mixtral", "gemma2"), TWO),
    "gemma3_text": TWO,
}
"""What peft 0.21.2 adapts where nobody names a module, by a model's type (utils/constants.py)."""


def _four_bit(plan: Plan) -> bool | None:
    return plan.finetuning == "qlora" or None


def _modules(plan: Plan) -> list[str] | None:
    if plan.finetuning == "full":
        return None
    modules = lora_targets(plan)[0]
    # TRL makes text of a list of one, which peft reads as a pattern of whole paths.
    return list(modules) if len(modules) != 1 else [_pattern(*modules)]


def _pattern(target: str) -> str:
    return target if target == ALL_LINEAR else rf".*\.{target}"


def _tensors(plan: Plan) -> list[str] | None:
    return None if plan.finetuning == "full" else list(lora_targets(plan)[1]) or None


def _finetuning(value: object, values: Values) -> Mapping[str, Any]:
    four_bit, adapters = bool(values["load_in_4bit"]), bool(values["use_peft"])
    if four_bit and not adapters:
        raise ValueError("4-bit weights train through adapters alone; set use_peft.")
    return {"finetuning": "qlora" if four_bit else "lora" if adapters else "full"}


def _targets(value: object, values: Values) -> Mapping[str, Any]:
    """The plan's targets of peft's modules and tensors of experts."""
    if not values["use_peft"]:
        return {}
    modules, tensors = values["lora_target_modules"], values["lora_target_parameters"]
    names = [
        *([modules] if isinstance(modules, str) else modules or ()),
        *([tensors] if isinstance(tensors, str) else tensors or ()),
    ]
    if not names:
        model = values["model_name_or_path"]
        return {"lora_targets": _usual(str(model))} if model else {}
    if any("," in str(name) for name in names):
        raise ValueError("peft takes a name with a comma for a pattern; give the modules apart.")
    plain = [str(name).removeprefix(r".*\.").removeprefix("mlp.experts.") for name in names]
    return {"lora_targets": ",".join(plain)}


def _usual(name: str) -> str:
    """What peft adapts for want of a name.

    Raises:
        ValueError: peft asks for names, or nobody knows the model.
    """
    kind = catalog.model(name).model_type
    if kind not in PEFTS_OWN:
        raise ValueError(f"peft knows no usual modules of {kind}; set lora_targets by hand.")
    return PEFTS_OWN[kind]


def _of_adapters(field: str) -> Any:
    return lambda value, values: {field: value} if values["use_peft"] else {}


def _dropout(value: float, values: Values) -> Mapping[str, Any]:
    """Of adapters; a trainer that switches dropout off does so in them too."""
    off = bool(values.get("disable_dropout"))
    return {"lora_dropout": 0.0 if off else float(value)} if values["use_peft"] else {}


def _nested(value: bool, values: Values) -> Mapping[str, Any]:
    if values["load_in_4bit"] and not value:
        raise ValueError("More: 4-bit scales stay in fp32; a plan's are quantised once more.")
    return {}


ADAPTERS: tuple[Setting, ...] = (
    row(
        *(FILE.format(103), "use_peft", False, "finetuning"),
        write=lambda plan: plan.finetuning != "full" or None,
        read=_finetuning,
    ),
    row(
        *(FILE.format(107), "lora_r", 16, "lora_rank"),
        write=lambda plan: plan.lora_rank if plan.finetuning != "full" else None,
        read=_of_adapters("lora_rank"),
    ),
    row(
        *(FILE.format(119), "lora_target_modules", None, "lora_targets"),
        write=_modules,
        read=_targets,
    ),
    row(FILE.format(123), "lora_target_parameters", None, "lora_targets", write=_tensors),
    # TRL's own default is 0.05.
    row(
        *(FILE.format(115), "lora_dropout", 0.05, "lora_dropout"),
        write=lambda plan: plan.lora_dropout if plan.finetuning != "full" else None,
        read=_dropout,
    ),
    row(FILE.format(156), "load_in_4bit", False, "finetuning", write=_four_bit),
    # The plan counts scales that are quantised once more; TRL's default leaves them in fp32.
    row(
        *(FILE.format(164), "use_bnb_nested_quant", False, "finetuning"),
        write=_four_bit,
        read=_nested,
    ),
    *beyond("adapters"),
)
