"""What stands between the final norm and the vocabulary, and the micro-batch's own tensors.

A policy's loss cuts the hidden states to the positions it scores. The cut is a view of all of
them where rows follow one another (one row, or every position); otherwise products need the
positions side by side, and so does the pass back. Read in ``planner/steps/forward.py`` and
``planner/steps/vocabulary``; counted in dry runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.formulas.formula import Formula
from planner.formulas.logits import Head
from planner.numeric import Num, minimum
from planner.phases.role import Role
from planner.phases.scene import Scene, once, shared
from planner.phases.vocabulary import inference_head, training_head
from planner.plan.methods import method_of
from planner.term import Term
from planner.values.loss_code import CROSS_ENTROPY

STEPS = "planner/steps/forward.py and planner/steps/vocabulary (read); counted in dry runs"
IN_PIECES = ("chunked", "fused")
"""Paths that multiply the head's weight piece by piece and keep hidden states for the backward."""

HIDDEN = Formula(
    "final hidden states",
    "tokens * hidden * value_bytes * there",
    category="activations",
    source=STEPS,
    why="The final norm's output is alive while the loss runs and saved for the head's gradient.",
)
SCORED_HIDDEN = Formula(
    "hidden states of the scored positions",
    "scored_tokens * hidden * value_bytes * there",
    category="activations",
    source=STEPS,
    why="Scored positions of several rows, or hidden states that autocast casts, are copied into "
    "one contiguous tensor.",
)
TARGETS = Formula(
    "targets",
    "8 * tokens * there",
    category="activations",
    source=STEPS,
    why="The token that each position has to predict, as int64.",
)
BATCH = Formula(
    "token ids, mask and positions",
    "8 * tensors_per_token * tokens",
    category="activations",
    source="planner/steps/batch.py",
    why="The model's inputs: token ids, and a mask for padded rows or positions for packed rows.",
)


EMBEDDED = Formula(
    "embeddings, held by name",
    "(tokens * apart + row_tokens * learned) * hidden * value_bytes + 8 * row_tokens",
    category="activations",
    source="transformers 5.23.0 modeling files: forward() names its inputs_embeds, position "
    "embeddings and ids until it returns; counted in dry runs",
    why="The embedding's output outlives the first layer that reads it.",
)


@once
def micro_batch(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The rows of a training forward; embeddings that train save the token ids themselves."""
    return rows(scene, role, scene.q.micro_tokens, not role.root_trainable)


@once
def scoring_batch(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The rows of a forward without gradient."""
    return rows(scene, role, scene.q.logprob_tokens, True)


def rows(scene: Scene, role: Role, tokens: Num, ids: bool) -> tuple[Term, ...]:
    """What a forward is given for ``tokens`` positions; ``ids`` counts those as well."""
    count = ids + (scene.plan.batch_shape != "full")
    return (BATCH(role.name, tensors=count, tensors_per_token=count, tokens=tokens),)


def embedded(
    scene: Scene, role: Role, rows: Num, row_tokens: Num, *, saved: bool, numbered: bool = False
) -> Term:
    """The embedding's output beside a later layer's input.

    ``saved`` says that a first layer has kept it, and that it is counted there; ``numbered``
    that each row has positions of its own.
    """
    arch = role.arch
    apart = arch.learned_positions > 0 or arch.dropout > 0 or not saved
    return EMBEDDED(
        role.name,
        tokens=rows * row_tokens,
        row_tokens=row_tokens * (rows if numbered else 1),
        hidden=arch.hidden,
        value_bytes=scene.embedding_bytes(role),
        apart=int(apart and arch.layers > 1),
        learned=int(arch.learned_positions > 0),
    )


class Positions:
    """The positions of one forward that meet the vocabulary, and how they lie."""

    def __init__(self, scene: Scene, role: Role, *, gradient: bool = True) -> None:
        """Of a training forward, or of one without ``gradient``."""
        self.scene, self.role, q = scene, role, scene.q
        self.head: Head = (training_head if gradient else inference_head)(scene, role)
        self.tokens = q.micro_tokens if gradient else q.logprob_tokens
        rows = q.micro_sequences if gradient else q.logprob_sequences
        way = self.head.way
        every = method_of(scene.plan).objective == CROSS_ENTROPY or way.scores_all
        # The loss scores some positions of a row only.
        cut = not (every or role.value_head)
        self.packed = cut and scene.plan.batch_shape == "packed"
        self.in_pieces = self.head.logits in IN_PIECES
        lowered = scene.precision == "autocast-bf16" and (gradient or role.trained)
        self.width = scene.normed_bytes(role)
        """Bytes of a number of the hidden states."""
        lowered = lowered or self.width > scene.embedding_bytes(role)
        self.autocasts = lowered and not self.head.casts_tiles
        # A head that gathers the rows it scores counts that copy, and keeps nothing else but what
        # autocast has lowered.
        gathers = way.by_kernel and self.in_pieces and not self.autocasts
        cut = cut and not gathers
        # 1 where the scored positions are no view of the rows, else 0.
        self.apart: Num = int(self.packed) if self.packed or not cut else minimum(rows - 1, 1)
        self.kept = (self.head.weight_trains or self.in_pieces) and not gathers
        self.outside = way.outside_model and way.path == "full"
        """The loss takes the model's output, and no forward names its hidden states by then."""

    def hidden(self, there: Num = 1) -> Iterator[Term]:
        """All hidden states, ``there`` times."""
        sizes = {"hidden": self.role.arch.hidden, "value_bytes": self.width}
        return self._of(HIDDEN, there, **sizes, tokens=self.tokens)

    def scored(self, there: Num = 1, label: str = "", value_bytes: int = 0) -> Iterator[Term]:
        """Those of the scored positions side by side, in the compute dtype unless told."""
        tokens = self.tokens if self.role.value_head else self.head.tokens
        width = value_bytes or self.scene.q.compute_bytes
        sizes = {"hidden": self.role.arch.hidden, "value_bytes": width, "scored_tokens": tokens}
        return self._of(SCORED_HIDDEN, there, **sizes, label=label)

    def wide(self) -> Iterator[Term]:
        """Positions of a packed row as they are cut, before autocast lowers them."""
        if self.packed and self.autocasts:
            label = "hidden states of the scored positions in fp32"
            yield from self.scored(1, label, self.width)

    def targets(self, there: Num = 1) -> Iterator[Term]:
        """What positions have to predict: of all of them unless rows are packed, and a copy."""
        if not self.packed:
            yield from self._of(TARGETS, there, tokens=self.tokens)
        copied = 1 if self.packed else self.apart * self.in_pieces
        label = "targets of the scored positions"
        yield from self._of(TARGETS, copied, label=label, tokens=self.head.tokens)

    def _of(self, formula: Formula, there: Num, **inputs: Any) -> Iterator[Term]:
        """The term, unless none of it is there."""
        if type(there) is not int or there:
            yield formula(self.role.name, **inputs, there=there)


@shared
def while_scoring(
    scene: Scene, role: Role, *, forward: bool = True, inside: bool = True
) -> Iterator[Term]:
    """Alive while the loss of a training forward runs, or what is left when that has run.

    ``inside`` says that the instant is one of the model's own forward.
    """
    own = Positions(scene, role)
    copied = 1 if own.autocasts else own.apart
    # A critic returns its scores: nothing names its hidden states when its loss runs.
    named = forward and not own.packed and not role.value_head and (inside or not own.outside)
    yield from own.hidden(1 if named else own.kept * (1 - copied))
    if forward:
        yield from own.wide()
    if own.kept or (forward and own.packed):
        yield from own.scored(copied)
    if method_of(scene.plan).objective == "policy" and not role.value_head:
        # The loss names all targets while it runs; what it keeps of them is a view, or a copy.
        yield from own.targets(1 - own.apart if own.in_pieces and not forward else 1)


def after_scoring(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What the loss has kept of it when the backward begins."""
    return while_scoring(scene, role, forward=False)


def scored_again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """A second use of the head copies positions that are no view of the rows once more."""
    if scene.plan.batch_shape == "packed":
        return ()
    return tuple(term for term in while_scoring(scene, role) if term.name == SCORED_HIDDEN.name)


@shared
def without_gradient(
    scene: Scene, role: Role, in_pieces: bool | None = None, *, inside: bool = True
) -> Iterator[Term]:
    """Alive while a forward without gradient scores.

    ``in_pieces`` says whether the head is multiplied piece by piece, where that is not as the
    plan's logits have it; ``inside`` that the instant is one of the model's own forward.
    """
    own = Positions(scene, role, gradient=False)
    if in_pieces is None:
        in_pieces = own.in_pieces and not role.value_head
    if not own.packed and (inside or not own.outside):
        yield from own.hidden()
    side_by_side = in_pieces if own.autocasts else own.packed
    yield from own.scored(1 if side_by_side else own.apart * in_pieces)
    yield from own.wide()
    if not role.value_head:
        yield from own.targets()


def value_input(scene: Scene, role: Role, *, forward: bool) -> Iterator[Term]:
    """What a value head beside the language-model head keeps of the hidden states they share.

    Where products need positions side by side, or cast, each head has a copy of its own. When
    the loss has run, only what a head keeps is left of the hidden states themselves.
    """
    own = Positions(scene, role)
    copied = 1 if own.autocasts else (not own.packed) * own.apart
    yield from own.scored(copied, "hidden states that the value head keeps")
    if not forward and not own.kept:
        own.tokens = own.head.tokens if own.packed else own.tokens
        yield from own.hidden(1 - copied)


@shared
def of_two(scene: Scene, role: Role) -> Iterator[Term]:
    """While the first of two hidden states of one forward is scored: the policy's beside it.

    The second is of the reference, without gradient (:mod:`planner.phases.in_loss`).
    """
    own = Positions(scene, role)
    if not own.packed:
        yield from own.hidden(2)
    yield from own.scored(2 if own.packed else own.apart * own.in_pieces)
    yield from own.targets()
