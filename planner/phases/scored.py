"""What stands between the final norm and the vocabulary, and the micro-batch's own tensors.

A policy's loss cuts the hidden states to the positions it scores. The cut is a view of all of
them where rows follow one another (one row, or every position); otherwise products need the
positions side by side, and so does the pass back. Read in ``planner/steps/forward.py`` and
``planner/steps/vocabulary``; counted in dry runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Term
from planner.formulas.formula import Formula
from planner.formulas.logits import Head
from planner.methods import method_of
from planner.numeric import Num, minimum
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.phases.vocabulary import inference_head, training_head

STEPS = "planner/steps/forward.py and planner/steps/vocabulary (read); counted in dry runs"
IN_PIECES = ("chunked", "fused")
"""Paths that multiply the head's weight piece by piece and keep hidden states for the backward."""

HIDDEN = Formula(
    "final hidden states",
    "tokens * hidden * value_bytes * there",
    category="activations",
    source=STEPS,
    why="The final norm's output: named while the loss runs, kept for the head's gradient.",
)
SCORED_HIDDEN = Formula(
    "hidden states of the scored positions",
    "scored_tokens * hidden * value_bytes * there",
    category="activations",
    source=STEPS,
    why="Positions of several rows, or hidden states cast for autocast, are copied side by side.",
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
    why="What the model is given: token ids, and a mask of padded or positions of packed rows.",
)


EMBEDDED = Formula(
    "embeddings, held by name",
    "(tokens * apart + row_tokens * learned) * hidden * value_bytes + 8 * row_tokens",
    category="activations",
    source="transformers 5.23.0 modeling files: forward() names its inputs_embeds, position "
    "embeddings and ids until it returns; counted in dry runs",
    why="The embedding's output outlives the first layer that reads it.",
)


def micro_batch(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The rows of a training forward; embeddings that train save the token ids themselves."""
    return _rows(scene, role, scene.q.micro_tokens, not role.root_trainable)


def scoring_batch(scene: Scene, role: Role) -> tuple[Term, ...]:
    """The rows of a forward without gradient."""
    return _rows(scene, role, scene.q.logprob_tokens, True)


def _rows(scene: Scene, role: Role, tokens: Num, ids: bool) -> tuple[Term, ...]:
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


def while_scoring(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Alive while the loss of a training forward runs."""
    return scene.once(("scored", role.name), lambda: _training(scene, role, forward=True))


def after_scoring(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What the loss has kept of it when the backward begins."""
    return scene.once(("kept scored", role.name), lambda: _training(scene, role, forward=False))


def _training(scene: Scene, role: Role, *, forward: bool) -> Iterator[Term]:
    head, q = training_head(scene, role), scene.q
    autocasts = scene.precision == "autocast-bf16"
    keeps = head.weight_trains or head.logits in IN_PIECES
    cut = _cut(scene, role, head)
    apart = _apart(scene, cut, q.micro_sequences)
    in_place = 1 - (1 if autocasts else apart)
    named = forward and not (cut and scene.plan.batch_shape == "packed")
    # A critic returns its scores: nothing names its hidden states when its loss runs.
    if role.value_head:
        named = False
    yield HIDDEN(
        role.name,
        tokens=q.micro_tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.embedding_bytes(role),
        there=1 if named else keeps * in_place,
    )
    if autocasts and cut and scene.plan.batch_shape == "packed":
        yield _wide_positions(scene, role, head, int(forward))
    copied = 1 if autocasts else apart
    still = keeps or (forward and cut and scene.plan.batch_shape == "packed")
    yield SCORED_HIDDEN(
        role.name,
        scored_tokens=q.micro_tokens if role.value_head else head.tokens,
        hidden=role.arch.hidden,
        value_bytes=q.compute_bytes,
        there=copied * still,
    )
    if method_of(scene.plan).objective == "policy" and not role.value_head:
        yield from _targets(scene, role, head, cut, q.micro_tokens, apart, forward)


def scored_again(scene: Scene, role: Role) -> tuple[Term, ...]:
    """A second use of the head copies positions that are no view of the rows once more."""
    return (
        tuple(term for term in while_scoring(scene, role) if term.name == SCORED_HIDDEN.name)
        if scene.plan.batch_shape != "packed"
        else ()
    )


def without_gradient(scene: Scene, role: Role, in_pieces: bool | None = None) -> tuple[Term, ...]:
    """Alive while a forward without gradient scores.

    ``in_pieces`` says whether the head is multiplied piece by piece, where that is not as the
    plan's logits have it.
    """
    return scene.once(
        ("scored without gradient", role.name, in_pieces),
        lambda: _inference(scene, role, in_pieces),
    )


def _inference(scene: Scene, role: Role, in_pieces: bool | None) -> Iterator[Term]:
    head, q = inference_head(scene, role), scene.q
    autocasts = scene.precision == "autocast-bf16" and role.trained
    cut = _cut(scene, role, head)
    packed = cut and scene.plan.batch_shape == "packed"
    apart = _apart(scene, cut, q.logprob_sequences)
    yield HIDDEN(
        role.name,
        tokens=q.logprob_tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.embedding_bytes(role),
        there=0 if packed else 1,
    )
    if in_pieces is None:
        in_pieces = head.logits in IN_PIECES and not role.value_head
    side_by_side = (in_pieces and autocasts) or (packed and not autocasts)
    yield SCORED_HIDDEN(
        role.name,
        scored_tokens=head.tokens,
        hidden=role.arch.hidden,
        value_bytes=q.compute_bytes,
        there=1 if side_by_side else apart * in_pieces,
    )
    if packed and autocasts:
        yield _wide_positions(scene, role, head, 1)
    if not role.value_head:
        yield from _targets(scene, role, head, cut, q.logprob_tokens, apart, True)


def _wide_positions(scene: Scene, role: Role, head: Head, there: int) -> Term:
    """Positions of a packed row as they are cut, before autocast lowers them."""
    return SCORED_HIDDEN(
        role.name,
        label="hidden states of the scored positions in fp32",
        scored_tokens=head.tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.embedding_bytes(role),
        there=there,
    )


def value_input(scene: Scene, role: Role, *, forward: bool) -> tuple[Term, ...]:
    """What a value head beside the language-model head keeps of the hidden states they share.

    Where products need positions side by side, or cast, each head has a copy of its own. When
    the loss has run, only what a head keeps is left of the hidden states themselves.
    """
    return tuple(_value_input(scene, role, forward=forward))


def _value_input(scene: Scene, role: Role, *, forward: bool) -> Iterator[Term]:
    head, q = training_head(scene, role), scene.q
    autocasts = scene.precision == "autocast-bf16"
    cut = _cut(scene, role, head)
    packed = cut and scene.plan.batch_shape == "packed"
    copied = 1 if autocasts else (not packed) * _apart(scene, cut, q.micro_sequences)
    yield SCORED_HIDDEN(
        role.name,
        label="hidden states that the value head keeps",
        scored_tokens=head.tokens,
        hidden=role.arch.hidden,
        value_bytes=q.compute_bytes,
        there=copied,
    )
    if not forward and not (head.weight_trains or head.logits in IN_PIECES):
        yield HIDDEN(
            role.name,
            tokens=head.tokens if packed else q.micro_tokens,
            hidden=role.arch.hidden,
            value_bytes=scene.embedding_bytes(role),
            there=1 - copied,
        )


def of_two(scene: Scene, role: Role) -> tuple[Term, ...]:
    """While the first of two hidden states of one forward is scored: the policy's beside it.

    The second is of the reference, without gradient (:mod:`planner.phases.in_loss`).
    """
    return scene.once(("scored of two", role.name), lambda: _of_two(scene, role))


def _of_two(scene: Scene, role: Role) -> Iterator[Term]:
    head, q = training_head(scene, role), scene.q
    cut = _cut(scene, role, head)
    packed = cut and scene.plan.batch_shape == "packed"
    apart = _apart(scene, cut, q.micro_sequences)
    yield HIDDEN(
        role.name,
        tokens=q.micro_tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.embedding_bytes(role),
        there=0 if packed else 2,
    )
    yield SCORED_HIDDEN(
        role.name,
        scored_tokens=head.tokens,
        hidden=role.arch.hidden,
        value_bytes=q.compute_bytes,
        there=2 if packed else apart * (head.logits in IN_PIECES),
    )
    yield from _targets(scene, role, head, cut, q.micro_tokens, apart, True)


def _targets(
    scene: Scene, role: Role, head: Head, cut: bool, tokens: Num, apart: Num, forward: bool
) -> Iterator[Term]:
    packed = cut and scene.plan.batch_shape == "packed"
    in_pieces = head.logits in IN_PIECES
    # The loss names all targets while it runs; what it keeps of them is a view, or a copy.
    all_there = 1 - apart if in_pieces and not forward else 1
    yield TARGETS(role.name, tokens=tokens, there=0 if packed else all_there)
    yield TARGETS(
        role.name,
        label="targets of the scored positions",
        tokens=head.tokens,
        there=1 if packed else apart * in_pieces,
    )


def _cut(scene: Scene, role: Role, head: Head) -> bool:
    """Whether the loss scores some positions of a row only."""
    every = method_of(scene.plan).objective == "cross-entropy" or head.logits == "full"
    return not (every or role.value_head)


def _apart(scene: Scene, cut: bool, rows: Num) -> Num:
    """1 where the scored positions are no view of the rows, else 0."""
    if not cut:
        return 0
    return 1 if scene.plan.batch_shape == "packed" else minimum(rows - 1, 1)
