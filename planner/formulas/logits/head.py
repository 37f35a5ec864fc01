"""What the loss's formulas need to know of the place where tokens meet the vocabulary.

Which code that is says :class:`planner.values.loss_code.Way`: some frameworks ignore what a plan
asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.numeric import Num
from planner.values.dtypes import BYTES
from planner.values.loss_code import Way

INSIDE_MODEL = ("logits", "soft cap backward", "head backward")
"""Instants of the model itself, where a framework scores its output outside of it."""

RETURNED = "copy of the model's output"
"""The instant of a training forward at which the model itself, and its autocast, have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One micro-batch's hidden states, the vocabulary, and the code between them.

    ``tokens`` rows of ``hidden`` numbers meet ``vocab`` columns; the caller decides whether
    they are whole sequences or responses only. ``logits_dtype`` is the dtype the log-softmax runs
    in. Sizes may be arrays.
    """

    tokens: Num
    rows: Num
    """Sequences in the micro-batch."""
    vocab: Num
    hidden: Num
    logits_dtype: str
    """``bf16``, or ``fp32`` when the logits are upcast first."""
    weight_trains: bool
    """The head's weight receives a gradient."""
    way: Way
    """The code that runs there."""
    role: str = "policy"
    """Whose terms come of it."""
    entropy: bool = False
    """An entropy with gradient is part of the loss."""
    softcap: bool = False
    """The model squashes its logits (``final_logit_softcapping``)."""
    temperature_scaled: bool = False
    """The sampling temperature is not 1."""
    dtype: str = "bf16"
    """Dtype of hidden states, weight and head product."""
    autocast_casts: bool = False
    """Autocast casts half-precision logits for the softmax, which leaves them named."""
    casts_tiles: bool = False
    """Hidden states and weight are in fp32, and what a tile multiplies is cast for it."""
    casts_columns: bool = False
    """The weight alone is in fp32, and what a tile multiplies of it is cast."""
    logits_held: bool = False
    """Something still names the head's output while the loss runs and goes backward."""
    copied_output: str = ""
    """``half`` or ``fp32``: the format of the logits that a wrapper around the model copies; empty
    where nothing copies what the model returns."""
    chunk_tokens: Num | None = None
    """Rows of a chunk where the head is multiplied chunk by chunk; verl's 512 where not told."""
    chunk_compile: bool = False
    """Chunks go through ``torch.compile``."""
    compiled_entropy: bool = False
    """Inductor computes the entropy, and keeps nothing over the vocabulary but the logits."""
    copied_logits: bool = False
    """The loss reads a copy of the logits without the padded positions."""
    certainty: bool = False
    """A pass without gradient gives self-certainty too (the fused head's)."""

    def __post_init__(self) -> None:
        """Refuse what no formula knows."""
        if self.logits_dtype not in ("bf16", "fp32"):
            raise ValueError(f"logits_dtype must be bf16 or fp32, not {self.logits_dtype!r}")
        if self.dtype not in BYTES:
            raise ValueError(f"dtype must be one of {', '.join(BYTES)}, not {self.dtype!r}")

    def of(self, role: str) -> Head:
        """The head of this role."""
        return self if self.role == role else replace(self, role=role)

    @property
    def logits(self) -> str:
        """``full``, ``response``, ``chunked`` or ``fused``."""
        return self.way.path

    @property
    def item_bytes(self) -> int:
        """Bytes of one number of the head's product."""
        return BYTES[self.dtype]

    @property
    def upcasts(self) -> bool:
        """A second, wider copy of the logits is made."""
        return BYTES[self.logits_dtype] > self.item_bytes
