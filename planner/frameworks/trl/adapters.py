"""Adapters and 4-bit weights, in the words of TRL's ``ModelConfig``."""

from __future__ import annotations

from planner.formulas.lora import ALL_LINEAR
from planner.frameworks.trl.rows import beyond, row
from planner.launch.huggingface import adapters
from planner.launch.words import lora_targets
from planner.plan import Plan
from planner.values.setting import Setting, refusing

FILE = "trainer/model_config.py:{}"


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


ADAPTERS: tuple[Setting, ...] = (
    row(
        *(FILE.format(103), "use_peft", False, "finetuning"),
        write=lambda plan: plan.finetuning != "full" or None,
        read=adapters.finetuning,
    ),
    row(
        *(FILE.format(107), "lora_r", 16, "lora_rank"),
        write=lambda plan: plan.lora_rank if plan.finetuning != "full" else None,
        read=adapters.rank,
    ),
    row(
        *(FILE.format(119), "lora_target_modules", None, "lora_targets"),
        write=_modules,
        read=adapters.targets_of("lora_target_modules", "lora_target_parameters"),
    ),
    row(FILE.format(123), "lora_target_parameters", None, "lora_targets", write=_tensors),
    # TRL's own default is 0.05.
    row(
        *(FILE.format(115), "lora_dropout", 0.05, "lora_dropout"),
        write=lambda plan: plan.lora_dropout if plan.finetuning != "full" else None,
        read=adapters.dropout,
    ),
    row(FILE.format(156), "load_in_4bit", False, "finetuning", write=_four_bit),
    # The plan counts scales that are quantised once more; TRL's default leaves them in fp32.
    row(
        *(FILE.format(164), "use_bnb_nested_quant", False, "finetuning"),
        write=_four_bit,
        read=refusing(
            "More: 4-bit scales stay in fp32; a plan's are quantised once more.",
            lambda value, values: values["load_in_4bit"] and not value,
        ),
    ),
    *beyond("adapters"),
)
