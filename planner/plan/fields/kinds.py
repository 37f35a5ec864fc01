"""Types of a plan's fields, and what their rows ask of a plan or of a sweep's grid."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from planner.catalog.card_names import LONGEST, card_key
from planner.lengths.text import MAX_CHARACTERS, canonical
from planner.plan.frameworks import complaint, frameworks
from planner.rule import NOT_YET

Sharding = Literal["none", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2"]
Dtype = Literal["bf16", "fp16", "fp32"]
Offload = Literal[
    "none",
    "optimizer",
    "parameters",
    "all",
    "optimizer-between-phases",
    "parameters-between-phases",
    "all-between-phases",
]


EIGHT_BIT = ("adamw-8bit", "paged-adamw-8bit")
"""Optimizers whose code is bitsandbytes' or torchao's: no step of ours runs it."""
FLASH = ("flash", "flash_attention_3")
"""Attention by the flash-attn packages: FlashAttention-2, and 3, which keeps as much."""
UNSAMPLED = ("none", "in-graph")
"""Rollouts in which nobody samples responses: there are none, or the training graph makes them."""


def _known_framework(name: str) -> str:
    if name not in frameworks():
        raise PydanticCustomError("framework", "{text}", {"text": complaint(name)})
    return name


def _distribution(text: str) -> str:
    try:
        return canonical(text)
    except ValueError as error:
        raise PydanticCustomError("lengths", "it {text}", {"text": str(error)}) from None


Tokens = Annotated[int, Field(ge=1, le=4_194_304)]
TokensOrNone = Annotated[int, Field(ge=0, le=4_194_304)]
MOST = 1_048_576
"""Of what is counted; no run has more, and what a link carries stays small."""
Count = Annotated[int, Field(ge=1, le=MOST)]
CountOrNone = Annotated[int, Field(ge=0, le=MOST)]
Bytes = Annotated[int, Field(ge=0, le=2**53)]
Framework = Annotated[str, AfterValidator(_known_framework)]
Distribution = Annotated[str, Field(max_length=MAX_CHARACTERS), AfterValidator(_distribution)]
Card = Annotated[str, Field(max_length=LONGEST), AfterValidator(card_key)]
Name = Annotated[str, Field(max_length=160, pattern=r"^[\w.\-/]*$")]
Version = Annotated[str, Field(max_length=32, pattern=r"^[\w.+]+$")]


def half(plan: Any) -> bool:
    """Whether it computes in half precision."""
    return plan.dtype in ("bf16", "fp16")


def adapted(plan: Any) -> bool:
    """Whether adapters train in place of the weights."""
    return plan.finetuning in ("lora", "qlora")


def not_yet(name: str, label: str, fix: str = "Set it to 1.") -> dict[str, Any]:
    """Of a number's row, where no more than 1 is modelled yet, and no script has it.

    ``label`` is what sentences call it.
    """
    return {
        "label_in_sentences": label,
        "not_modelled": (lambda plan: getattr(plan, name) != 1, f"{name} above 1 {NOT_YET}", fix),
        "no_effect": (("it is not modelled yet", lambda plan: True),),
        "not_exported": "The script trains data-parallel only, with one turn.",
    }
