"""DPO beside plain PyTorch: a program that can read what its reference gave before training."""

from __future__ import annotations

from pathlib import Path

from planner.launch.online_programs import SCORES, refuse_scores
from planner.launch.templates import Program, of_fields
from planner.plan import Plan
from planner.values.framework import Trainer

FOLDER = Path(__file__).with_name("program")
CACHED = ("cached-logprobs", "cached-activations")


def _templates(plan: Plan) -> tuple[Path, ...]:
    train = FOLDER / "train_dpo.py"
    return (FOLDER / "precompute_reference.py", train) if plan.reference in CACHED else (train,)


WHY = {
    **SCORES,
    "logprob_micro_batch_size": "Number of pairs in one forward of the reference; that forward "
    "keeps no activations.",
    "prompts_per_step": "",
}


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        "The data file has JSONL rows with the texts prompt, chosen and rejected; pairs longer "
        "than planned are left out.",
        *(
            (
                "precompute_reference.py runs first, writes reference-cache/ and skips pairs "
                "already in it; train_dpo.py refuses a cache of another model, revision or data "
                "set.",
            )
            if plan.reference in CACHED
            else ()
        ),
    )


TRAINER = Trainer(
    export=Program(
        templates=_templates,
        constants=of_fields(WHY),
        refuse=refuse_scores,
        notes=_notes,
    )
)
