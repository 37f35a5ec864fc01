"""Other spellings of settings: older names, classes of a Python script, accelerate's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.frameworks.trl.rows import beyond, row
from planner.importer.given import Given, Open
from planner.importer.huggingface.sharing import of_trainer
from planner.importer.kinds import flat
from planner.importer.python_text import OWNERS
from planner.launch.huggingface.resolved import Values
from planner.values.setting import Setting


def _prompt(value: int | None, values: Values) -> Mapping[str, Any]:
    return {"prompt_tokens": int(value)} if value else {}


EARLIER = "configurations of earlier releases"
OLDER: tuple[Setting, ...] = (
    row(EARLIER, "max_prompt_length", None, "prompt_tokens", read=_prompt, unit="tokens"),
    *beyond("earlier"),
)
"""What earlier releases took, and people's scripts still say."""

RENAMED = {
    "torch_dtype": "dtype",
    "evaluation_strategy": "eval_strategy",
    "max_seq_length": "max_length",
    "vllm_max_model_len": "vllm_max_model_length",
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
TOLD_TRAINER = {"0": MODEL[0], "model": MODEL[0], "1": MODEL[1], "reward_funcs": MODEL[1]}
"""Arguments of a trainer that name a model where they are a text; of DPO's the second is none."""


def as_settings(givens: Iterable[Given]) -> Iterator[Given]:
    """Names as the table has them; what is below ``env`` sets variables, and is not taken."""
    for one in flat(givens):
        yield of_trainer(replace(one, name=RENAMED.get(one.name, one.name)))


CALL = re.compile(r"\w*(Config|Arguments|Trainer)|from_pretrained")
"""Calls of a Python script whose arguments are settings."""
ARGUMENTS = ("TrainingArguments", "ModelConfig", "ScriptArguments")
ADAPTED = re.compile(r"lora_|load_in_|use_|bnb_")
LOADED = {"0": MODEL[0], "pretrained_model_name_or_path": MODEL[0], "dtype": "dtype"} | {
    name: name for name in ("torch_dtype", "attn_implementation")
}
"""Arguments of a model's ``from_pretrained``."""


def owner_of(name: str) -> tuple[str, str]:
    """The call and the argument of ``trl.GRPOConfig.beta``; of a loader the class as well."""
    parts = name.split(".")
    if "from_pretrained" in parts:
        at = parts.index("from_pretrained")
        return ".".join(parts[max(0, at - 1) : at + 1]), ".".join(parts[at + 1 :])
    at = next((at for at, part in enumerate(parts) if CALL.fullmatch(part)), 0)
    return parts[at], ".".join(parts[at + 1 :])


def _all_rest_on(givens: Iterable[Given], owner: str) -> tuple[Open, ...]:
    """What a call as a whole rests on: the branch that it stands in."""
    first, *others = [one.opens for one in givens if owner_of(one.name)[0] == owner]
    return tuple(one for one in first if all(one in opens for opens in others))


def of_script(givens: Iterable[Given], arguments: str) -> Iterator[Given]:
    """A Python script's arguments by call, as settings; what is none of a run keeps its name.

    Args:
        givens: named by call and argument, an argument without a name by its position.
        arguments: the class of the trainer's own.
    """
    adapters, told = False, [*flat(givens)]
    names = [one.name for one in told]
    for one in told:
        owner, name = owner_of(one.name)
        found = one.name
        if owner in ("LoraConfig", "BitsAndBytesConfig"):
            if owner == "LoraConfig" and not adapters:
                adapters, opens = True, _all_rest_on(told, owner)
                if not any(one.name.endswith(".use_peft") for one in opens):  # else a flag says it
                    yield Given("use_peft", True, opens=opens)
            known = name in PEFT or ADAPTED.match(name)
            found = PEFT.get(name, name) if known else found
        elif owner.endswith("Trainer"):
            says = isinstance(one.value, str) and all(o.default is not None for o in one.opens)
            found = (TOLD_TRAINER.get(name) if says else None) or f"trainer.{name}"
        elif owner.endswith("from_pretrained"):
            model = "Model" in owner and "Sequence" not in owner
            built = any("BitsAndBytesConfig" in each.name for each in one.opens)
            found = LOADED.get(name, found) if model and not built else f"trainer.{name}"
            said = {argument for call, argument in map(owner_of, names) if call == owner}
            if found == MODEL[0] and not said & {"dtype", "torch_dtype"}:
                yield Given("dtype", "auto")  # transformers' own: the checkpoint's
        elif owner in (arguments, *ARGUMENTS) or OWNERS.fullmatch(owner):
            found = name
        yield from as_settings([replace(one, name=found)])
