"""Document 000's "Recommended Settings for 8×80GB GPUs", answered: its two, and three plans.

The document cuts responses and batch so that Intuitor fits. The three plans keep its lengths and
its larger batch; a search (:mod:`planner.search`) found them, and ``tests/search`` asks it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from planner.examples import lengths
from planner.examples.dry_runs import Case
from planner.launch.export import writing
from planner.plan import Plan
from planner.plan.presets import presets

PROMPT, RESPONSE = 2_048, 4_096
"""Tokens as the document plans them where it finds that they do not fit."""
PROMPTS, RESPONSES = 32, 8
"""Its larger batch."""

FOUND: Mapping[str, Mapping[str, Any]] = {
    name: {
        "sharding": "zero2",
        "micro_batch_size": 2,
        "logprob_micro_batch_size": 2,
        "gradient_checkpointing": "none",
    }
    for name in ("conservative", "balanced", "aggressive")
}
"""What each of the three changes of :func:`asked`: less margin buys nothing here."""


def kept() -> dict[str, Any]:
    """What is asked for: the document's run, in a framework that has a script for its method."""
    real = presets()[lengths.REAL].plan
    return {
        "model": real.model,
        "method": real.method,
        "framework": writing(real)[0],
        "gpu": real.gpu,
        "gpus": real.gpus,
        "prompt_tokens": PROMPT,
        "response_tokens": RESPONSE,
        "prompts_per_step": PROMPTS,
        "responses_per_prompt": RESPONSES,
    }


@cache
def asked() -> Plan:
    """The plan that the search began with."""
    return Plan(**kept())


def alike() -> str:
    """Which of the three are the conservative one, in a sentence; empty where none is."""
    first, *others = FOUND
    same = [name for name in others if FOUND[name] == FOUND[first]]
    verb = "is" if len(same) == 1 else "are"
    said = f"{' and '.join(same)} {verb} the {first} plan: less margin buys no time here."
    return said[0].upper() + said[1:] if same else ""


@cache
def settings() -> tuple[Case, ...]:
    """The document's two settings, then the three plans, each by its name."""
    own = (lengths.group(16, 4, 1_024), lengths.group(32, 8, 2_048))
    named = zip(("Document: conservative", "Document: aggressive"), own, strict=True)
    return (
        *(Case(label=label, preset=one.preset, changes=one.changes) for label, one in named),
        *(
            lengths.case(name.capitalize(), asked().changed(**changes))
            for name, changes in FOUND.items()
        ),
    )
