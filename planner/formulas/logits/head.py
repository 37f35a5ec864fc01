"""What the loss's formulas need to know of the place where tokens meet the vocabulary.

Also says which code runs there: the fused head of TRL 1.15 and later ignores what a plan asks
for, so :func:`effective_logits` has to be asked before a plan's choice is believed. Imports
:mod:`planner.footprint` and :mod:`planner.numeric` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.footprint import Instant, Term
from planner.numeric import Num, total, where

ITEM_BYTES: Mapping[str, int] = {"bf16": 2, "fp16": 2, "fp32": 4}

TRL_LOSS: Mapping[str, str] = {
    "1.9.0": "loop",
    "1.12.0": "loop",
    "1.13.0": "loop",
    "1.14.0": "kernel",
    "1.15.0": "fused",
    "1.16.0": "fused",
}
"""How each TRL wheel that was read (2026-10) scores the taken tokens of a policy: a loop over
sequences, one Triton kernel on the materialised logits, or the fused head."""

KNOWN_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "trl": tuple(TRL_LOSS),
    "verl": ("0.9.1",),
    "openrlhf": ("0.11.2",),
}
"""Versions whose source was read, per framework; ``plain`` is this project's own step."""

PATHS = ("full", "response", "chunked", "fused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One micro-batch's hidden states, the vocabulary, and the code between them.

    ``tokens`` rows of ``hidden`` numbers meet ``vocab`` columns; the caller decides whether
    they are whole sequences or responses only. ``logits`` is the plan's field and
    ``logits_dtype`` the dtype the log-softmax runs in. Sizes may be arrays.
    """

    tokens: Num
    rows: Num
    """Sequences in the micro-batch."""
    vocab: Num
    hidden: Num
    logits: str
    """``full``, ``response``, ``chunked`` or ``fused``."""
    logits_dtype: str
    """``bf16``, or ``fp32`` when the logits are upcast first."""
    weight_trains: bool
    """The head's weight receives a gradient."""
    framework: str
    framework_version: str
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
    logits_held: bool = False
    """Something still names the head's output while the loss runs and goes backward."""
    entropy_chunk: Num | None = None
    """Tokens per chunk of an entropy without gradient (verl's option, 2048 there)."""

    def __post_init__(self) -> None:
        """Refuse what no formula knows."""
        if self.logits not in PATHS:
            raise ValueError(f"logits must be one of {', '.join(PATHS)}, not {self.logits!r}")
        if self.logits_dtype not in ("bf16", "fp32"):
            raise ValueError(f"logits_dtype must be bf16 or fp32, not {self.logits_dtype!r}")
        if self.dtype not in ITEM_BYTES:
            raise ValueError(f"dtype must be one of {', '.join(ITEM_BYTES)}, not {self.dtype!r}")
        check_version(self.framework, self.framework_version)
        trainer = "sft" if self.framework == "trl" and self.logits == "chunked" else "policy"
        runs = effective_logits(trainer, self.framework, self.framework_version, self.logits)
        if runs != self.logits:
            raise ValueError(
                f"logits {self.logits!r} does not exist in {self.framework} "
                f"{self.framework_version}, which runs {runs!r}: ask effective_logits first"
            )

    @property
    def item_bytes(self) -> int:
        """Bytes of one number of the head's product."""
        return ITEM_BYTES[self.dtype]

    @property
    def loss_item_bytes(self) -> int:
        """Bytes of one number inside the log-softmax."""
        return max(self.item_bytes, ITEM_BYTES[self.logits_dtype])

    @property
    def upcasts(self) -> bool:
        """A second, wider copy of the logits is made."""
        return self.loss_item_bytes > self.item_bytes


def check_version(framework: str, version: str) -> None:
    """``ValueError`` unless the source of this framework and version was read."""
    if framework == "plain":
        return
    if framework not in KNOWN_VERSIONS:
        raise ValueError(
            f"framework must be plain, {' or '.join(KNOWN_VERSIONS)} for the loss's memory, "
            f"not {framework!r}"
        )
    if version not in KNOWN_VERSIONS[framework]:
        raise ValueError(
            f"framework_version {version!r} of {framework} is not one whose loss was read; "
            f"known: {', '.join(KNOWN_VERSIONS[framework])}"
        )


def effective_logits(method: str, framework: str, framework_version: str, logits: str) -> str:
    """The path the code takes, whatever the plan's ``logits`` asks for.

    TRL decides by itself: from 1.15 every trainer runs the fused head; before, its policies
    score responses on materialised logits and its SFT goes through chunks of 256 tokens. verl
    has full logits, or 512-token chunks with ``use_fused_kernels``; OpenRLHF has full logits only.
    Source: the wheels trl 1.9.0 to 1.16.0, verl 0.9.1 and openrlhf 0.11.2, read 2026-10.
    """
    if logits not in PATHS:
        raise ValueError(f"logits must be one of {', '.join(PATHS)}, not {logits!r}")
    check_version(framework, framework_version)
    if framework == "trl":
        if TRL_LOSS[framework_version] == "fused":
            return "fused"
        return "chunked" if method == "sft" else "response"
    if framework == "openrlhf":
        return "full"
    if framework == "verl":
        return "chunked" if logits in ("chunked", "fused") else "full"
    return logits


def highest(*instants: Instant) -> Instant:
    """The instant with most bytes; for arrays, at every element the terms of the highest one.

    Terms of an instant that is not the highest at an element carry 0 bytes there.
    """
    best = instants[0]
    for other in instants[1:]:
        rises = instant_bytes(other) > instant_bytes(best)
        if isinstance(rises, bool):
            best = other if rises else best
            continue
        best = Instant(
            name=f"{best.name} or {other.name}",
            terms=tuple(masked(term, ~rises) for term in best.terms)
            + tuple(masked(term, rises) for term in other.terms),
        )
    return best


def instant_bytes(instant: Instant) -> Num:
    """Sum of an instant's terms."""
    return total([term.bytes for term in instant.terms])


def masked(term: Term, there: Num) -> Term:
    """The term where ``there`` holds, 0 bytes elsewhere."""
    return replace(term, bytes=where(there, term.bytes, 0), tensors=where(there, term.tensors, 0))
