"""GRADE beside plain PyTorch: no framework has it, so its program is ours."""

from __future__ import annotations

from pathlib import Path

from planner.launch.templates import Constant, Program, literal_of, of_fields
from planner.plan import Plan
from planner.setup.setup import setup_of
from planner.values.framework import Trainer

NO_JUDGE = (
    "The plan names no reward model, so its size is the policy's: name one with --reward-model, "
    "behind launch.sh too."
)
TEMPLATE = Path(__file__).with_name("program") / "train_grade.py"


WHY = {
    "grade_estimator": "Besides the soft weights, straight-through keeps a one-hot row and its "
    "difference from them.",
    "grade_top_k": "Each generated token keeps this many weights; 0 keeps one for every vocabulary "
    "entry.",
    "grade_dense_scatter": "Writes the top-k weights into a row as long as the vocabulary, which "
    "is kept for every token.",
    "grade_kl": "batch keeps the policy's and the reference's logits of all tokens until the "
    "backward; online adds the KL up token by token, and still keeps the policy's logits for its "
    "gradient.",
    "grade_reference_cache": "With a KV cache the reference reads each token once; the cache grows "
    "by one entry a token.",
    "grade_reward_input": "sparse gathers k embeddings for every token and keeps them; dense "
    "multiplies by the whole table and keeps only the mixtures.",
    "grade_step_checkpointing": "Keeps only the input of each generated token's forward and "
    "recomputes that forward in the backward; otherwise every token's activations stay allocated "
    "until the backward.",
}


CONSTANTS = (
    *of_fields({"reward_model": ""}),
    *of_fields(WHY, "grade_"),
    Constant(
        name="autocast_adapters",
        fields=("grade_autocast",),
        write=lambda plan: setup_of(plan).autocasts_adapters,
        read=lambda value, said: {"grade_autocast": literal_of("grade_autocast", value)},
        why="Autocast casts fp32 adapters to half precision, with new copies for every generated "
        "token.",
    ),
    *of_fields({"prompts_per_step": ""}),
    Constant(
        name="--method",
        otherwise="All options of one of the authors' trainers; give them one by one.",
    ),
)


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        "The data file has JSONL rows with a text prompt; prompts longer than planned are left "
        "out.",
        "The reward model is a sequence classifier of the policy's family with one label; it reads "
        "only the response.",
        *(() if plan.reward_model else (NO_JUDGE,)),
    )


TRAINER = Trainer(
    export=Program(
        templates=lambda plan: (TEMPLATE,),
        constants=CONSTANTS,
        flags=("reward_model", *(name.removeprefix("grade_") for name in WHY)),
        notes=_notes,
    )
)
