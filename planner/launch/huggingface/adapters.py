"""A plan's adapters from settings, by whatever names a trainer has for peft's.

Whether adapters train is one setting (``use_peft``, or a section of peft's own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner import catalog
from planner.launch.huggingface.resolved import Values, adapted

TWO = "q_proj,v_proj"
PEFTS_OWN = {
    "gpt2": "c_attn",
    "gpt_neox": "query_key_value",
    **dict.fromkeys(("qwen2", "qwen3", "llama", "mistral", "mixtral", "gemma2"), TWO),
    "gemma3_text": TWO,
}
"""What peft 0.21.2 adapts where nobody names a module, by a model's type (utils/constants.py)."""

APART = "give the modules apart"
Read = Callable[[Any, Values], Mapping[str, Any]]


def finetuning(value: object, values: Values) -> Mapping[str, Any]:
    """What trains.

    Raises:
        ValueError: 4-bit weights themselves.
    """
    four_bit, adapters = bool(values.get("load_in_4bit")), adapted(values)
    if four_bit and not adapters:
        raise ValueError("4-bit weights train through adapters alone; set use_peft.")
    return {"finetuning": "qlora" if four_bit else "lora" if adapters else "full"}


def targets_of(modules: str, tensors: str) -> Read:
    """Reads a plan's targets of peft's modules and tensors of experts, by these settings."""

    def read(value: object, values: Values) -> Mapping[str, Any]:
        if not adapted(values):
            return {}
        names: list[object] = []
        for told in (values[modules], values[tensors]):
            names += [told] if isinstance(told, str) else told or ()
        if not names:
            model = values["model_name_or_path"]
            return {"lora_targets": _usual(str(model))} if model else {}
        if any("," in str(name) for name in names):
            raise ValueError(f"peft takes a name with a comma for a pattern; {APART}.")
        plain = [str(name).removeprefix(r".*\.").removeprefix("mlp.experts.") for name in names]
        return {"lora_targets": ",".join(plain)}

    return read


def _usual(name: str) -> str:
    """What peft adapts for want of a name.

    Raises:
        ValueError: peft asks for names, or nobody knows the model.
    """
    kind = catalog.model(name).model_type
    if kind not in PEFTS_OWN:
        raise ValueError(f"peft knows no usual modules of {kind}; set lora_targets by hand.")
    return PEFTS_OWN[kind]


def rank(value: object, values: Values) -> Mapping[str, Any]:
    """Of adapters, where any train."""
    return {"lora_rank": value} if adapted(values) else {}


def dropout(value: float, values: Values) -> Mapping[str, Any]:
    """Of adapters; a trainer that switches dropout off does so in them too."""
    off = bool(values.get("disable_dropout"))
    return {"lora_dropout": 0.0 if off else float(value)} if adapted(values) else {}
