"""Other spellings of settings: older names, classes of a Python script, accelerate's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.frameworks.trl.rows import other, row
from planner.importer.given import Given
from planner.importer.huggingface.sharing import of_trainer
from planner.importer.kinds import flat
from planner.launch.huggingface.resolved import Values
from planner.values.setting import Setting


def _prompt(value: int | None, values: Values) -> Mapping[str, Any]:
    return {"prompt_tokens": int(value)} if value else {}


EARLIER = "configurations of earlier releases"
OLDER: tuple[Setting, ...] = (
    row(EARLIER, "max_prompt_length", None, "prompt_tokens", read=_prompt, unit="tokens"),
    other(EARLIER, "group_by_length", False, "both", "Less padding: rows by length."),
    other(EARLIER, "use_liger_loss", False, "memory", "Less: no logits of all responses."),
    other(EARLIER, "vllm_device", "auto", "memory", "An engine on a card of its own."),
    other(EARLIER, "vllm_dtype", "auto", "memory", "The engine's weights in another dtype."),
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


def as_settings(givens: Iterable[Given]) -> Iterator[Given]:
    """Names as the table has them; what is below ``env`` sets variables, and is not taken."""
    for one in flat(givens):
        yield of_trainer(replace(one, name=RENAMED.get(one.name, one.name)))


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
