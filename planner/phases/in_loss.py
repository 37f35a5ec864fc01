"""References whose log-probs the loss makes: from cached hidden states, or in the same forward.

The code is ``planner/steps/in_loss.py``; what the two forms are:
docs/decisions/0009-references-in-the-loss.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.formulas import logits
from planner.formulas.activations.layers import layer_forward_transient
from planner.formulas.formula import Formula
from planner.numeric import minimum
from planner.phases import activations, collectives, positions
from planner.phases.layer_kinds import layer_kinds
from planner.phases.phase import Work, training
from planner.phases.scene import Scene
from planner.phases.training import FIRST_INPUTS, embedded, named_masks, while_saved
from planner.phases.vocabulary import inference_head, path, scored_in_step, training_head
from planner.plan import references
from planner.term import Instant, Standing, Term
from planner.values.step_phases import POLICY_UPDATE

CACHE = "reference hidden states"
"""Stands for :func:`cache` among the names of what is kept for the update."""

STEPS = "planner/steps/in_loss.py (read); counted in dry runs"

CACHED = Formula(
    "cached reference hidden states",
    "sequences * tokens * hidden * value_bytes",
    category="activations",
    source=STEPS,
    why="The reference's hidden state before the head, for every response token of the step.",
)
CARRIED = Formula(
    "hidden states beside the reference's layer",
    "(3 - input_kept) * tokens * hidden * value_bytes",
    category="activations",
    source=STEPS,
    why="The policy's layer has its input (left out here if it is kept for the backward) and its "
    "output; the reference's layer has an input of its own.",
)


def cache(scene: Scene) -> Term:
    """The reference's hidden states of this GPU's sequences of the step."""
    return CACHED(
        "reference",
        sequences=scene.q.sequences_per_gpu_step,
        tokens=scene.q.response_tokens,
        hidden=scene.policy.arch.hidden,
        value_bytes=scene.q.compute_bytes,
    )


def made(scene: Scene) -> Iterator[Term]:
    """The reference's log-probs of a micro-batch, which wait for the policy's."""
    if references.in_loss(scene.plan):
        yield logits.log_prob_kept(
            training_head(scene, scene.policy),
            name="reference log-probs of the micro-batch",
            sequences=scene.q.micro_sequences,
            tokens=scene.q.response_tokens,
            role="policy",
        )


def work(scene: Scene) -> Iterator[Work]:
    """What the policy's forward computes besides: the reference's layers and head, or its head.

    The layers that run twice are gathered once.
    """
    plan, q, policy = scene.plan, scene.q, scene.policy
    if references.dual(plan):
        row = training(scene, policy, "forward", scored_tokens=scored_in_step(scene, gradient=True))
        yield replace(
            row, role=policy.as_reference(), run="score", beside=True, gathered=False
        )
    elif references.cached(plan):
        own = scene.reference
        yield Work(
            role=own or policy,
            run="score",
            scored_tokens=q.sequences_per_gpu_step * q.training.response_tokens,
            rounds=q.training.rounds,
            beside=True,
            gathered=own is not None,
            host_bytes=cache(scene).bytes,
        )


def instants(scene: Scene, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """What a training forward holds while the reference's log-probs are made in it."""
    if references.cached(scene.plan):
        yield from _from_cache(scene, kept)
    if references.dual(scene.plan):
        yield from _beside_layers(scene, kept)
        yield from _beside_head(scene, kept)


def _from_cache(scene: Scene, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The head's product, before the policy's forward."""
    policy, q = scene.policy, scene.q
    own = scene.reference
    tokens = q.micro_sequences * q.response_tokens
    head = replace(inference_head(scene, policy), tokens=tokens, rows=q.micro_sequences)
    weights = (
        *collectives.before_layers(scene, policy),
        *(collectives.before_layers(scene, own) if own else ()),
    )
    side_by_side = positions.TARGETS(
        "reference",
        label="targets of the responses",
        tokens=tokens,
        there=minimum(q.micro_sequences - 1, 1) * (path(scene) in positions.IN_PIECES),
    )
    shared = (
        Standing(POLICY_UPDATE, "accumulated"),
        kept,
        weights,
        (*positions.rows(scene, policy, q.micro_tokens, True), side_by_side),
    )
    for found in logits.logprob_instants(head, with_entropy=False, role="reference"):
        yield Instant(name=f"reference's {found.name}", terms=found.everything, shared=shared)


def _beside_layers(scene: Scene, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """A layer's second run, without adapters, after all layers' first runs but the last's."""
    role = scene.policy
    workload = replace(scene.training_workload(role), trains="none", lora_rank=0, lora_targets=())
    for kind in layer_kinds(role.arch):
        yield Instant(
            name=f"reference's last {kind.word}layer",
            terms=(
                *layer_forward_transient(role.arch, workload, role="reference", sparse=kind.sparse),
                *collectives.at_layer(scene, role),
            ),
            shared=(
                *while_saved(scene, role, kept, role.arch.layers - 1 - kind.last),
                (_carried(scene),),
                *named_masks(scene, role),
                embedded(scene, role),
            ),
        )


def _beside_head(scene: Scene, kept: tuple[Term, ...]) -> Iterator[Instant]:
    """The reference's hidden states meet the head, the policy's wait."""
    role = scene.policy
    head = replace(training_head(scene, role), entropy=False, weight_trains=False)
    for found in logits.logprob_instants(head, with_entropy=False, role="reference"):
        yield Instant(
            name=f"reference's {found.name}",
            terms=(*found.everything, *collectives.at_head(scene, role)),
            shared=(
                *while_saved(scene, role, kept),
                activations.inside_final_norm(scene, role),
                positions.of_two(scene, role),
            ),
        )


def _carried(scene: Scene) -> Term:
    """Hidden states on their way, of both."""
    role = scene.policy
    input_kept = any(term.name in FIRST_INPUTS for term in activations.all_layers(scene, role))
    return CARRIED(
        "reference",
        input_kept=int(input_kept),
        tokens=scene.q.micro_tokens,
        hidden=role.arch.hidden,
        value_bytes=scene.embedding_bytes(role),
    )
