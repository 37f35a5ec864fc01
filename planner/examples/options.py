"""The documents' options side by side, at any place of their card's slider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from planner.examples import dry_runs
from planner.examples.dry_runs import Case
from planner.examples.reference_options import GPU, STEP, OptionRow, reference_options
from planner.plan.presets import newest, presets

TOKENS = (16, 32, 48, 64, 96, 128)
"""Generated tokens on document 001's slider; its own is 64."""
CLAIMED = "Option 2 as claimed"
BATCHES = {
    f"{rows} × {tokens}": (rows, tokens)
    for rows, tokens in ((1, 16), (1, 32), (2, 32), (2, 48), (4, 48), (4, 64))
}
"""Rows and generated tokens on document 002's: 4 × 48 ran out of memory, 2 × 32 came after."""

ACTIVATIONS = "doc-004-activations@1"
SEQUENCES = (128, 256, 512, 768, 1024)
"""Tokens of a sequence on document 004's; its own is 512."""


def answered(tokens: int) -> dict[str, Any]:
    """The fields of so many generated tokens."""
    return {"response_tokens": tokens, "validation_response_tokens": tokens}


def at_batch(rows: int, tokens: int) -> dict[str, Any]:
    """The fields of so many rows of so many generated tokens."""
    every = (
        "prompts_per_step", "prompts_per_update", "micro_batch_size", "logprob_micro_batch_size"
    )
    return {**dict.fromkeys(every, rows), **answered(tokens)}


def optimizations(tokens: int) -> tuple[Case, ...]:
    """Document 001's run as it was, with each of its six changes alone, and with all of them.

    The sparse reward input needs the top-k, so that comes with it.
    """
    legacy, best = newest(dry_runs.LEGACY), newest(dry_runs.OPTIMISED)
    alone: Mapping[str, Mapping[str, Any]] = {
        "As it was": {},
        "Top-k 256": dry_runs.TOP_K,
        "Online KL": {"grade_kl": dict(presets()[best].plan)["grade_kl"]},
        "Cache for the reference": {"grade_reference_cache": True},
        "Sparse reward input": {**dry_runs.TOP_K, "grade_reward_input": "sparse"},
        "Checkpoint each token": {"grade_step_checkpointing": True},
    }
    return (
        *(
            Case(label=label, preset=legacy, changes={**answered(tokens), **changes})
            for label, changes in alone.items()
        ),
        Case(label="Half the tokens", preset=legacy, changes=answered(tokens // 2)),
        Case(label="All six", preset=best, changes=answered(tokens // 2)),
    )


def changes(rows: int, tokens: int) -> tuple[Case, ...]:
    """Document 002's run before its changes, and after them at the same batch."""
    return tuple(
        Case(label=label, preset=newest(preset), changes=at_batch(rows, tokens))
        for label, preset in (
            ("As it was", dry_runs.BEFORE),
            ("After, first step", dry_runs.FIRST_STEP),
            ("After, later steps", dry_runs.AFTER),
        )
    )


def sequence(tokens: int) -> Case:
    """Document 004's plan at a length, half of it prompt."""
    half = {"prompt_tokens": tokens // 2, **answered(tokens // 2)}
    return Case(label=f"{tokens} tokens", preset=newest(ACTIVATIONS), changes=half)


@lru_cache(maxsize=64)
def references(tokens: int, read: Callable[[float], str]) -> tuple[OptionRow, ...]:
    """The reference's options on the card and in time, the same rows at every length.

    The document claims something of its own length alone; elsewhere its row says so.
    """
    found = [row for row in reference_options(sequence(tokens).plan, read)]
    rows: list[OptionRow] = []
    for measure in (GPU, STEP):
        own = [row for row in found if row.measure == measure]
        if not any(row.option == CLAIMED for row in own):
            bare = replace(own[-1], option=CLAIMED, kind="as claimed", value=None, text="not said")
            own.insert(-1, bare)
        rows += own
    return tuple(rows)
