"""What sampling keeps of every generated token, and what it needs in passing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from planner.formulas import soft_generation as soft
from planner.formulas.formula import Formula
from planner.methods.grade.fields import own
from planner.numeric import Num
from planner.phases.scene import Scene
from planner.term import Term

FP32, INT64 = 4, 8


Moment = Literal["forward", "reward's backward", "policy's backward"]
"""While the list of soft tokens is held, while the reward goes backward, and after."""


class Soft:
    """Soft tokens of a scene: GRADE's switches, and tensors of so many of them."""

    def __init__(self, scene: Scene) -> None:
        """``scene`` is that of a GRADE plan or grid."""
        self.scene, self.own, self.width = scene, own(scene.plan), scene.q.compute_bytes
        self.tokens: Num = scene.plan.response_tokens

    def rows(
        self, formula: Formula, value_bytes: Num, steps: Num, *, label: str = "", tensors: int = 1
    ) -> Term:
        """The formula's tensors of ``steps`` tokens, one row of the vocabulary each."""
        vocab, tensors = self.scene.policy.arch.vocab, steps * tensors
        return self._of(formula, value_bytes, steps, label=label, tensors=tensors, vocab=vocab)

    def best(self, formula: Formula, value_bytes: Num, steps: Num, *, label: str = "") -> Term:
        """The formula's tensors of ``steps`` tokens, one row of the k best entries each."""
        top_k = self.own.grade_top_k
        return self._of(formula, value_bytes, steps, label=label, tensors=steps, top_k=top_k)

    def best_rows(self, role: str, steps: Num) -> Term:
        """The gathered embeddings of ``steps`` tokens."""
        sizes = {"top_k": self.own.grade_top_k, "hidden": self.scene.policy.arch.hidden}
        return self._of(soft.BEST_ROWS, self.width, steps, role, tensors=steps, **sizes)

    def _of(
        self, formula: Formula, value_bytes: Num, steps: Num, role: str = "policy", **more: Any
    ) -> Term:
        rows = self.scene.q.micro_rows
        return formula(role, value_bytes=value_bytes, sequences=rows, steps=steps, **more)


def kept(tokens: Soft, count: Num, mixtures: Num, moment: Moment) -> Iterator[Term]:
    """What ``count`` sampled tokens keep, ``mixtures`` of which became embeddings."""
    yield from _kept(tokens, count, mixtures, moment)
    if tokens.own.grade_kl == "online":
        yield tokens.rows(soft.KL_KEPT, 3 * FP32, count, tensors=3)
    if tokens.own.grade_kl == "batch":
        yield tokens.rows(soft.KEPT_LOGITS, FP32, count)
    # What tanh keeps where a model squashes logits; a checkpointed step makes it anew.
    if tokens.scene.policy.arch.logit_softcap and not tokens.own.grade_step_checkpointing:
        yield tokens.rows(soft.SQUASHED, tokens.width, count)


def _kept(tokens: Soft, count: Num, mixtures: Num, moment: Moment) -> Iterator[Term]:
    chosen = tokens.own
    straight = chosen.grade_estimator == "straight-through"
    # The list of soft tokens dies with the forward; a trained embedding keeps what it mixed.
    mixes = tokens.scene.policy.root_trainable > 0
    named = moment == "forward" or (mixes and tokens.width == FP32)
    halved = mixes and tokens.width != FP32
    if chosen.grade_top_k:
        yield tokens.best(soft.BEST_IDS, INT64, count)
        whole = chosen.grade_dense_scatter
        both = 1 + (straight and named and not whole)
        yield tokens.best(soft.BEST_WEIGHTS, FP32 * both, count)
        if not whole:
            yield tokens.best_rows("policy", mixtures)
            if halved:
                label = "weights of the top k in the embedding's dtype"
                yield tokens.best(soft.BEST_WEIGHTS, 2, mixtures, label=label)
            return
        gathered = chosen.grade_reward_input == "sparse"
        if named or (gathered and moment == "reward's backward"):
            yield tokens.rows(soft.SCATTERED, FP32, count)
        if gathered and moment == "policy's backward":
            yield tokens.rows(soft.GATHERED_GRADIENT, FP32, count)
    else:
        yield tokens.rows(soft.SOFT_TOKENS, FP32, count)
        if straight and named:
            yield tokens.rows(soft.STRAIGHT_THROUGH, FP32, count)
    if halved:
        yield tokens.rows(soft.MIXED_COPY, tokens.width, mixtures)


def drawing(tokens: Soft) -> Iterator[Term]:
    """Logits, noise and their sums while one token is sampled, beside what is kept of it."""
    yield tokens.rows(soft.VOCABULARY_ROWS, FP32, 1, label="logits of the token")
    if tokens.own.grade_top_k:
        label = "noise and sums of the top k"
        yield tokens.best(soft.BEST_WEIGHTS, 3 * FP32, 1, label=label)
    else:
        label = "noise and sum of the token"
        yield tokens.rows(soft.VOCABULARY_ROWS, 2 * FP32, 1, label=label)
