"""Forwards without gradient: old and reference log-probs, values, rewards."""

from __future__ import annotations

from planner.footprint import Instant, PhasePlan, Term
from planner.formulas import logits
from planner.formulas.activations import layer_forward_transient, model_saved
from planner.formulas.formula import Formula
from planner.methods import gathered
from planner.methods.resident import resident
from planner.methods.role import Role
from planner.methods.scene import Moment, Scene
from planner.methods.vocabulary import inference_head

SCORES = Formula(
    "scores",
    "sequences * tokens * 4",
    category="logits",
    source="a value or reward head gives one fp32 number a token",
    why="One number for every token of the micro-batch.",
)


def log_probs(
    scene: Scene,
    moment: Moment,
    role: Role,
    *,
    with_entropy: bool,
    extra: tuple[Instant, ...] = (),
    kept: tuple[Term, ...] = (),
) -> PhasePlan:
    """Log-probs of the taken tokens under a role.

    ``extra`` are further instants at the head (Intuitor's self-certainty), ``kept`` is
    what earlier phases left for the update.
    """
    base = (*resident(scene, moment), *kept)
    head = inference_head(scene, role)
    terms = logits.logprob_forward(head, with_entropy=with_entropy, role=role.name)
    at_head = (*base, *_hidden(scene, role), *gathered.at_head(scene, role, gradient=False))
    instants = (
        _layer(scene, role, base),
        Instant(name="log-probs", terms=(*at_head, *terms)),
        *(Instant(name=each.name, terms=(*at_head, *each.terms)) for each in extra),
    )
    return PhasePlan(name=moment, role=role.name, instants=instants)


def scores(scene: Scene, moment: Moment, role: Role, kept: tuple[Term, ...] = ()) -> PhasePlan:
    """One number per token (values) or per sequence (rewards) from a model's head."""
    base = (*resident(scene, moment), *kept)
    q = scene.q
    at_head = Instant(
        name="head",
        terms=(
            *base,
            *_hidden(scene, role),
            *gathered.at_head(scene, role, gradient=False),
            SCORES(role.name, sequences=q.logprob_rows, tokens=q.logprob_row_tokens),
        ),
    )
    return PhasePlan(name=moment, role=role.name, instants=(_layer(scene, role, base), at_head))


def _layer(scene: Scene, role: Role, base: tuple[Term, ...]) -> Instant:
    workload = scene.inference_workload(role)
    return Instant(
        name="a layer's forward",
        terms=(
            *base,
            *_hidden(scene, role),
            *layer_forward_transient(role.arch, workload, role=role.name),
            *gathered.at_layer(scene, role),
        ),
    )


def _hidden(scene: Scene, role: Role) -> tuple[Term, ...]:
    """Hidden states and what is shared by layers (mask, rotary tables)."""
    return model_saved(role.arch, scene.inference_workload(role), role=role.name)
