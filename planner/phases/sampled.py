"""A step's sampled rows where all of them are on the GPU, and not only the micro-batch at hand.

TRL makes one batch of a GPU's whole rollout, moves it there, and cuts micro-batches out of it that
are views. The next step's batch is made and scored before that one is let go.
"""

from __future__ import annotations

from planner.formulas import logits
from planner.formulas.formula import Formula
from planner.phases.scene import Scene, once
from planner.phases.vocabulary import inference_head
from planner.plan.trainers import trainer_for
from planner.setup.quantities import pads_rollout
from planner.term import Term

ROWS = Formula(
    "sampled token ids and masks",
    "8 * tensors_per_token * sequences * tokens",
    category="activations",
    source="trl 1.16.0 trl/trainer/grpo_trainer.py, _prepare_inputs and "
    "_generate_and_score_completions; read 2026-11",
    why="The int64 token ids and masks of a GPU's whole rollout stay on the GPU until their "
    "micro-batches run.",
)
NUMBERS = "numbers of the step before and of samples"
WAITING, JOINED = 2, 2
"""Tensors a token: ids and mask, of prompts and responses apart; both put together for scoring."""


@once
def waiting(scene: Scene) -> tuple[Term, ...]:
    """What an update's micro-batches are cut out of."""
    return (_rows(scene, WAITING),) if pads_rollout(scene.plan) else ()


@once
def while_scored(scene: Scene, kept: tuple[str, ...], made: int) -> tuple[Term, ...]:
    """What there is when the next rows are scored, the step before's rows and numbers with them.

    ``kept`` are the numbers per token of an update; of the new ones there are ``made`` more
    than are counted anyway, those that the engine gave its samples.
    """
    if not pads_rollout(scene.plan):
        return ()
    engine = made * scene.plan.rollout.startswith("vllm")
    count = engine if trainer_for(scene.plan).numbers_by_sequence else engine + len(kept)
    numbers = logits.log_prob_kept(
        inference_head(scene, scene.policy),
        name=NUMBERS,
        sequences=scene.q.sequences_per_gpu_step * count,
        tokens=scene.q.response_tokens,
        role="policy",
    )
    return _rows(scene, WAITING + WAITING + JOINED), numbers


def _rows(scene: Scene, tensors: int) -> Term:
    return ROWS(
        "policy",
        tensors=tensors,
        tensors_per_token=tensors,
        sequences=scene.q.sequences_per_gpu_step,
        tokens=scene.q.micro_row_tokens,
    )
