"""DPO beside plain PyTorch: a program that can read what its reference gave before training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from planner.frameworks.program import Decision, Program
from planner.frameworks.trainer import Trainer

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles
    from planner.plan.fields import PlanFields as Plan

FOLDER = Path(__file__).with_name("program")
CACHED = ("cached-logprobs", "cached-activations")


def _templates(plan: Plan) -> tuple[Path, ...]:
    train = FOLDER / "train_dpo.py"
    return (FOLDER / "precompute_reference.py", train) if plan.reference in CACHED else (train,)


def _decisions(plan: Plan) -> Iterator[Decision]:
    yield Decision(
        name="logits",
        value=plan.logits,
        why="response makes logits of the response's positions alone; full of every position.",
    )
    yield Decision(
        name="logits_dtype",
        value=plan.logits_dtype,
        why="What the log-softmax over the vocabulary computes in.",
    )
    yield Decision(
        name="logprob_micro_batch_size",
        value=plan.logprob_micro_batch_size,
        why="Pairs of one forward of the reference; it keeps no activations.",
    )
    yield Decision(name="prompts_per_step", value=plan.prompts_per_step)


def _refuse(found: Obstacles) -> None:
    found.only(
        "logits",
        "response",
        "full",
        why="The program makes the logits of a micro-batch at once; it has no kernel for pieces.",
    )
    if found.plan.reference == "dual-output":
        found.refuse(
            "reference",
            "The program runs policy and reference one after the other.",
            reference="adapter-disabled",
        )


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        "The data are JSONL rows with texts prompt, chosen and rejected; pairs that are longer "
        "than planned are left out.",
        *(
            (
                "precompute_reference.py runs first, writes reference-cache/ and skips what is "
                "there; train_dpo.py refuses a cache of another model, revision or data set.",
            )
            if plan.reference in CACHED
            else ()
        ),
    )


TRAINER = Trainer(
    export=Program(templates=_templates, decisions=_decisions, refuse=_refuse, notes=_notes)
)
