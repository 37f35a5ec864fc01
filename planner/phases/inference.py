"""Forwards without gradient: old and reference log-probs, values, rewards."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import logits
from planner.formulas.activations.layers import layer_forward_transient
from planner.formulas.activations.model import model_saved
from planner.formulas.formula import Formula
from planner.phases import activations, collectives, positions, units
from planner.phases.phase import PhasePlan, Work, scoring
from planner.phases.role import Role
from planner.phases.scene import Scene, once, remembered, shared
from planner.phases.vocabulary import casts_tiles, inference_head, scored_in_step
from planner.term import Bundle, Instant, Standing, Term
from planner.values.step_phases import StepPhase

Bundles = tuple[Bundle | Standing, ...]

SCORES = Formula(
    "scores",
    "sequences * tokens * 4",
    category="logits",
    source="a value or reward head gives one fp32 number a token",
    why="One number for every token of the micro-batch.",
)


@remembered
def log_probs(
    scene: Scene,
    kind: StepPhase,
    role: Role,
    *,
    with_entropy: bool,
    with_certainty: bool = False,
    extra: tuple[Instant, ...] = (),
    extra_in_pieces: bool = False,
    kept: tuple[Term, ...] = (),
    beside: Bundles = (),
) -> PhasePlan:
    """Log-probs of the taken tokens under a role.

    ``with_certainty`` says that the fused head gives self-certainty too. ``extra`` are further
    instants at the head (Intuitor's self-certainty), which copy the scored positions only where
    that works ``extra_in_pieces``. ``kept`` is what earlier phases left for the update. ``beside``
    is all that stays meanwhile, where that is more than what is resident at this moment.
    """
    found = logits.logprob_instants(
        inference_head(scene, role),
        with_entropy=with_entropy,
        with_certainty=with_certainty,
        role=role.name,
    )
    base = beside or (Standing(kind.moment), kept)
    return PhasePlan(
        kind=kind,
        role=role.name,
        instants=(
            *_layers(scene, role, base),
            *_later_layers(scene, role, base),
            *_frozen_product(scene, role, base),
            *(_at_head(scene, role, base, instant) for instant in found),
            *(_at_head(scene, role, base, instant, extra_in_pieces) for instant in extra),
        ),
        work=_work(scene, role),
    )


@remembered
def _work(scene: Scene, role: Role) -> tuple[Work, ...]:
    return (scoring(scene, role, scored_tokens=scored_in_step(scene, gradient=False)),)


@remembered
def scores(
    scene: Scene, kind: StepPhase, role: Role, kept: tuple[Term, ...] = ()
) -> PhasePlan:
    """One number per token (values) or per sequence (rewards) from a model's head."""
    base = (Standing(kind.moment), kept)
    q = scene.q
    one = SCORES(role.name, sequences=q.logprob_rows, tokens=q.logprob_row_tokens)
    head = _at_head(scene, role, base, Instant(name="head", terms=(one,)))
    return PhasePlan(
        kind=kind,
        role=role.name,
        instants=(*_layers(scene, role, base), head),
        work=(scoring(scene, role, scored_tokens=0),),
    )


@shared
def _running(scene: Scene, role: Role) -> tuple[Term, ...]:
    """One layer computes."""
    workload = scene.inference_workload(role)
    slides = activations.all_slide(role.arch)
    return (
        *layer_forward_transient(role.arch, workload, role=role.name, sliding=slides),
        *collectives.at_layer(scene, role),
        *activations.weight_copies(scene, role, layers=True, head=False),
        *positions.scoring_batch(scene, role),
        *_embedded(scene, role),
    )


def _layers(scene: Scene, role: Role, base: Bundles) -> Iterator[Instant]:
    running = (*base, _hidden(scene, role), _running(scene, role))
    yield Instant(name="a layer's forward", terms=(), shared=running)
    batch = positions.scoring_batch(scene, role)
    hidden = _hidden(scene, role)
    for name, arriving in collectives.arrivals(scene, role):
        if name == collectives.EMBEDDING_ARRIVES:
            # Masks and tables are made when its output is there.
            output = tuple(term for term in hidden if term.name == "hidden states")
            yield Instant(name=name, terms=(*arriving, *batch), shared=(*base, output))
            continue
        # Before the first layer the embedding's output can be the hidden states themselves.
        named = _embedded(scene, role, first=name.startswith("first"))
        yield Instant(name=name, terms=(*arriving, *batch, *named), shared=(*base, hidden))


def _later_layers(scene: Scene, role: Role, base: Bundles) -> Iterator[Instant]:
    """Layers of a later micro-batch, which finds a head that is a unit of its own gathered."""
    if not units.apart(scene, role):
        return
    passes = -(-scene.q.sequences_per_gpu_step // scene.q.logprob_sequences)
    left = collectives.left_by_another(scene, role, passes)
    for instant in _layers(scene, role, (*base, left)) if left else ():
        if instant.name != collectives.HEAD_ARRIVES:
            yield instant._replace(name=f"{instant.name}, later")


@once
def _embedded(scene: Scene, role: Role, *, first: bool = False) -> tuple[Term, ...]:
    rows, row_tokens = scene.q.logprob_rows, scene.q.logprob_row_tokens
    return (positions.embedded(scene, role, rows, row_tokens, saved=first),)


OF_HEAD = ("head", "head's product")
"""Moments in the model's own forward, like those that a loss puts there."""


def _at_head(
    scene: Scene, role: Role, base: Bundles, own: Instant, in_pieces: bool | None = None
) -> Instant:
    beside = _beside_head(scene, role, in_pieces, own.name in (*logits.INSIDE_MODEL, *OF_HEAD))
    return Instant(name=own.name, terms=own.everything, shared=(*base, beside))


def _frozen_product(scene: Scene, role: Role, base: Bundles) -> Iterator[Instant]:
    """Logits being made with autocast's copy of a frozen head, which is gone right after."""
    head = inference_head(scene, role)
    copies = activations.frozen_head_copy(scene, role)
    if copies and head.logits not in positions.IN_PIECES:
        own = Instant(name="head's product", terms=(*logits.product(head), *copies))
        yield _at_head(scene, role, base, own)


@shared
def _beside_head(
    scene: Scene, role: Role, in_pieces: bool | None, inside: bool
) -> tuple[Term, ...]:
    # A frozen head's copy is in no cache: it stays where the head is multiplied piece by piece.
    own = in_pieces is None  # or it is multiplied again, as a whole
    pieces = inference_head(scene, role).logits in positions.IN_PIECES if own else in_pieces
    copied = (pieces or not role.adapters) and not (own and casts_tiles(scene, role))
    return (
        *collectives.beside_loss(scene, role, inside),
        *activations.weight_copies(scene, role, layers=True, head=copied),
        *positions.scoring_batch(scene, role),
        *positions.without_gradient(scene, role, in_pieces, inside=inside),
    )


@shared
def _hidden(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Hidden states and what is shared by layers (mask, rotary tables)."""
    return model_saved(role.arch, scene.inference_workload(role), role=role.name)
