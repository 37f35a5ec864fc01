"""What sampling keeps of every generated token, and what it needs in passing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from planner.footprint import Term
from planner.formulas import soft_generation as soft
from planner.formulas.formula import Formula
from planner.methods.grade.fields import own
from planner.numeric import Num
from planner.phases.scene import Scene

FP32, INT64 = 4, 8


Moment = Literal["forward", "reward's backward", "policy's backward"]
"""While the list of soft tokens is held, while the reward goes backward, and after."""


def kept(scene: Scene, tokens: Num, mixtures: Num, moment: Moment) -> tuple[Term, ...]:
    """What ``tokens`` sampled tokens keep, ``mixtures`` of which became embeddings."""
    return (*_kept(scene, tokens, mixtures, moment), *_kl(scene, tokens), *_squashed(scene, tokens))


def _kept(scene: Scene, tokens: Num, mixtures: Num, moment: Moment) -> Iterator[Term]:
    plan = scene.plan
    straight = own(plan).grade_estimator == "straight-through"
    # The list of soft tokens dies with the forward; a trained embedding keeps what it mixed.
    mixes = scene.policy.root_trainable > 0
    named = moment == "forward" or (mixes and scene.q.compute_bytes == FP32)
    halved = mixes and scene.q.compute_bytes != FP32
    if own(plan).grade_top_k:
        yield best(scene, soft.BEST_IDS, INT64, tokens)
        whole = own(plan).grade_dense_scatter
        yield best(
            scene, soft.BEST_WEIGHTS, FP32 * (1 + (straight and named and not whole)), tokens
        )
        if not whole:
            yield best_rows(scene, scene.policy.name, mixtures)
            if halved:
                label = "weights of the top k in the embedding's dtype"
                yield best(scene, soft.BEST_WEIGHTS, 2, mixtures, label=label)
            return
        gathered = own(plan).grade_reward_input == "sparse"
        if named or (gathered and moment == "reward's backward"):
            yield rows(scene, soft.SCATTERED, FP32, tokens)
        if gathered and moment == "policy's backward":
            yield rows(scene, soft.GATHERED_GRADIENT, FP32, tokens)
    else:
        yield rows(scene, soft.SOFT_TOKENS, FP32, tokens)
        if straight and named:
            yield rows(scene, soft.STRAIGHT_THROUGH, FP32, tokens)
    if halved:
        yield rows(scene, soft.MIXED_COPY, scene.q.compute_bytes, mixtures)


def _kl(scene: Scene, tokens: Num) -> Iterator[Term]:
    if own(scene.plan).grade_kl == "online":
        yield rows(scene, soft.KL_KEPT, 3 * FP32, tokens, tensors=3)
    if own(scene.plan).grade_kl == "batch":
        yield rows(scene, soft.KEPT_LOGITS, FP32, tokens)


def _squashed(scene: Scene, tokens: Num) -> Iterator[Term]:
    """What tanh keeps where a model squashes logits; a checkpointed step makes it anew."""
    if scene.policy.arch.logit_softcap and not own(scene.plan).grade_step_checkpointing:
        yield rows(scene, soft.SQUASHED, scene.q.compute_bytes, tokens)


def drawing(scene: Scene) -> tuple[Term, ...]:
    """Logits, noise and their sums while one token is sampled, beside what is kept of it."""
    plan = scene.plan
    logits = rows(scene, soft.VOCABULARY_ROWS, FP32, 1, label="logits of the token")
    if own(plan).grade_top_k:
        passing = best(scene, soft.BEST_WEIGHTS, 3 * FP32, 1, label="noise and sums of the top k")
        return (logits, passing)
    return (
        logits,
        rows(scene, soft.VOCABULARY_ROWS, 2 * FP32, 1, label="noise and sum of the token"),
    )


def rows(
    scene: Scene,
    formula: Formula,
    value_bytes: Num,
    steps: Num,
    *,
    label: str = "",
    tensors: int = 1,
) -> Term:
    """The formula's tensors of ``steps`` tokens, one row of the vocabulary each."""
    return formula(
        scene.policy.name,
        label=label,
        tensors=steps * tensors,
        value_bytes=value_bytes,
        sequences=scene.q.micro_rows,
        steps=steps,
        vocab=scene.policy.arch.vocab,
    )


def best(scene: Scene, formula: Formula, value_bytes: Num, steps: Num, *, label: str = "") -> Term:
    """The formula's tensors of ``steps`` tokens, one row of the k best entries each."""
    return formula(
        scene.policy.name,
        label=label,
        tensors=steps,
        value_bytes=value_bytes,
        sequences=scene.q.micro_rows,
        steps=steps,
        top_k=own(scene.plan).grade_top_k,
    )


def best_rows(scene: Scene, role: str, steps: Num) -> Term:
    """The gathered embeddings of ``steps`` tokens."""
    return soft.BEST_ROWS(
        role,
        tensors=steps,
        value_bytes=scene.q.compute_bytes,
        sequences=scene.q.micro_rows,
        steps=steps,
        top_k=own(scene.plan).grade_top_k,
        hidden=scene.policy.arch.hidden,
    )
