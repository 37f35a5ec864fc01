"""Documents 001 and 002 as plans, and what dry runs of them found.

The dry runs stand in ``dry_runs.json``, since a page must answer at once; it is written by
``python -m planner.examples.measure``. Estimates are not in there: they are asked anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from planner.plan import Plan
from planner.plan.presets import presets

PATH = Path(__file__).with_name("dry_runs.json")

LEGACY = "doc-001-legacy@1"
OPTIMISED = "doc-001-optimised@1"
FULL_LEGACY = "doc-001-full-legacy@1"
FULL_OPTIMISED = "doc-001-full-optimised@1"
BEFORE = "doc-002-before@1"
FIRST_STEP = "doc-002-first-step@1"
AFTER = "doc-002-after@1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A preset, or a preset with some fields set otherwise; ``label`` is for people."""

    label: str
    preset: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What its dry run is found by: the preset and the changed fields."""
        words = (f"{name}={value}" for name, value in self.changes.items())
        return " ".join((self.preset, *words))

    @property
    def plan(self) -> Plan:
        """The plan that is estimated and dry-run."""
        return presets()[self.preset].plan.changed(**self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a dry run found: most requested bytes of every phase, and the largest of them."""

    phases: Mapping[str, int]

    @property
    def worst(self) -> str:
        """The phase that asks for most."""
        return max(self.phases, key=lambda name: self.phases[name])

    @property
    def requested_bytes(self) -> int:
        """Most bytes that tensors ask for at any moment of the step."""
        return self.phases[self.worst]


RUN_002 = (
    Case(label="Before", preset=BEFORE),
    Case(label="After, the first step", preset=FIRST_STEP),
    Case(label="After, every later step", preset=AFTER),
)
"""Document 002's changes."""

TOP_K: Mapping[str, Any] = {"grade_top_k": 256, "grade_dense_scatter": True}
ONLINE: Mapping[str, Any] = {**TOP_K, "grade_kl": "online"}
CACHED: Mapping[str, Any] = {**ONLINE, "grade_reference_cache": True}
SPARSE: Mapping[str, Any] = {**CACHED, "grade_reward_input": "sparse"}

LADDER = (
    Case(label="Legacy", preset=LEGACY),
    Case(label="+ top-k 256, scattered back", preset=LEGACY, changes=TOP_K),
    Case(label="+ online KL", preset=LEGACY, changes=ONLINE),
    Case(label="+ reference with a KV cache", preset=LEGACY, changes=CACHED),
    Case(label="+ sparse reward input", preset=LEGACY, changes=SPARSE),
    Case(label="+ step checkpointing: optimised", preset=OPTIMISED),
)
"""Document 001's optimizations, one upon the other in its order."""

ASIDE = (
    Case(
        label="Legacy, straight-through",
        preset=LEGACY,
        changes={"grade_estimator": "straight-through"},
    ),
    Case(
        label="Optimised, top-k not scattered",
        preset=OPTIMISED,
        changes={"grade_dense_scatter": False},
    ),
)
"""Switches that the ladder does not turn alone."""

FULL = (
    Case(label="Legacy, full fine-tuning", preset=FULL_LEGACY),
    Case(label="Optimised, full fine-tuning", preset=FULL_OPTIMISED),
)
"""The same without adapters."""

_TWICE: Mapping[str, Any] = {
    "prompts_per_step": 2,
    "prompts_per_update": 2,
    "micro_batch_size": 2,
    "logprob_micro_batch_size": 2,
    "prompt_tokens": 64,
    "response_tokens": 32,
    "validation_response_tokens": 32,
    "attention": "sdpa",
}
EARLIER = (
    Case(
        label="Whole vocabulary, no KL",
        preset=FULL_LEGACY,
        changes={**_TWICE, "grade_kl": "none", "reference": "none"},
    ),
    Case(
        label="Top-k 256, not scattered, no KL",
        preset=FULL_LEGACY,
        changes={**_TWICE, "grade_kl": "none", "reference": "none", "grade_top_k": 256},
    ),
    Case(
        label="Top-k 256, online KL",
        preset=FULL_LEGACY,
        changes={**_TWICE, "grade_kl": "online", "grade_top_k": 256},
    ),
    Case(
        label="Top-k 256, online KL, step checkpointing",
        preset=FULL_LEGACY,
        changes={
            **_TWICE,
            "grade_kl": "online",
            "grade_top_k": 256,
            "grade_step_checkpointing": True,
        },
    ),
)
"""Full fine-tuning of two rows of 64 + 32 tokens with SDPA, where each option stands alone."""

AS_CODED = (
    Case(label="Document 002 before", preset="doc-002-before@2"),
    Case(label="Document 002 after, the first step", preset="doc-002-first-step@2"),
    Case(label="Document 002 after, every later step", preset="doc-002-after@2"),
    Case(label="Document 001, legacy", preset="doc-001-legacy@2"),
    Case(label="Document 001, optimised", preset="doc-001-optimised@2"),
    Case(label="Document 001, optimised, full fine-tuning", preset="doc-001-full-optimised@2"),
)
"""The runs with what the code has besides: dropout, autocast, and a KL that is a number only."""

SMALL = Case(
    label="A small model, four tokens",
    preset=OPTIMISED,
    changes={
        "model": "Qwen/Qwen3-0.6B",
        "response_tokens": 4,
        "validation_response_tokens": 4,
    },
)
"""Fast enough to be dry-run again by a test; on no page."""

CASES = (*RUN_002, *LADDER, *ASIDE, *FULL, *EARLIER, *AS_CODED, SMALL)


@cache
def measured() -> Mapping[str, Measured]:
    """Every committed dry run by its case's key."""
    rows = json.loads(PATH.read_text("utf-8"))["cases"]
    return MappingProxyType({key: Measured(phases=phases) for key, phases in rows.items()})


def versions() -> Mapping[str, str]:
    """Versions of the libraries whose step was executed."""
    found: Mapping[str, str] = json.loads(PATH.read_text("utf-8"))["versions"]
    return found
