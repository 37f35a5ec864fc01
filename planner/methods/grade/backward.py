"""The backward of a GRADE step, moment by moment.

Weights are used in every step, so their gradients are summed in autograd's engine until the
first step's backward is done; the second use of a weight adds the most.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Instant, Term
from planner.formulas import soft_generation as soft
from planner.methods.grade import judged, sampled
from planner.methods.grade.fields import own
from planner.methods.grade.held import FP32, Bundles, Held
from planner.numeric import Num, where
from planner.phases.resident import adapter_bytes, resident
from planner.phases.role import Role


def backward_instants(held: Held) -> Iterator[Instant]:
    """From the reward's backward to the embedding's."""
    base = (resident(held.scene, "policy update", gradients="accumulated"), held.rows)
    known = (*base, *held.all_steps, held.batch_kl)
    generated = (*known, held.tokens(0, "reward's backward"))
    yield Instant(
        name="reward model's last layer's backward",
        terms=held.reward.backward(),
        shared=(*generated, held.reward.inputs(), held.reward.saved()),
    )
    yield Instant(
        name="reward model's final norm's backward",
        terms=(_norm_backward(held, held.reward.role, held.count), *held.reward.in_norm()),
        shared=(*generated, held.reward.inputs(), held.reward.saved()),
    )
    gradient = held.reward.gradient()
    generated = (*known, held.tokens(0, "policy's backward"), gradient)
    yield Instant(name="soft tokens' gradient", terms=held.reward.unmixing(), shared=generated)
    if held.batch:
        yield Instant(
            name="gradient of the KL of all steps",
            terms=judged.batch_backward(held.scene),
            shared=generated,
        )
        gradient = (*gradient, _kl_gradient(held))
    yield from _policy(held, (*base, gradient))


def _policy(held: Held, base: Bundles) -> Iterator[Instant]:
    steps, role = held.steps, held.role
    later = (*base, held.below(0), held.tokens(1, "policy's backward"))
    yield Instant(
        name="last step's final norm's backward",
        terms=(
            *_in_flight(held, "head"),
            *steps.in_norm(0),
            _norm_backward(held, role, steps.longest),
        ),
        shared=(*later, steps.saved_layers(0)),
    )
    yield Instant(
        name="last step's last layer's backward",
        terms=tuple(_in_flight(held, "head")),
        shared=(*later, steps.going_backward(0), steps.backward(0)),
    )
    yield Instant(
        name="last step's first layer's backward",
        terms=(*steps.first_layer(0), *steps.backward(0), *_in_flight(held, "layers")),
        shared=later,
    )
    # The row's gradient came with the later step, whose row was one token longer.
    again = (*steps.recomputing(0), _row_gradient(held))
    yield Instant(
        name="last step's first layer recomputed",
        terms=(*steps.first_layer(0), *again, *_in_flight(held, "layers")),
        shared=later,
    )
    before = (*base, held.below(1), (_row_gradient(held),))
    tied = role.arch.tied
    yield Instant(
        name="last soft token's embedding's backward",
        terms=(
            *_in_flight(held, "all" if tied else "before embedding"),
            *_added(held, _embedding(held), 2 if tied else 1),
            _row_gradient(held),
            *_sum_of_token(held),
        ),
        shared=(*base, steps.finished(1), held.tokens(1, "policy's backward")),
    )
    yield Instant(
        name="step before: head's backward",
        terms=(
            *_in_flight(held, "all"),
            *_added(held, _embedding(held), 1 if tied else 2),
            *(_logits_gradient(held) if tied else ()),
        ),
        shared=(
            *before,
            held.tokens(2, "policy's backward"),
            steps.saved_layers(1),
            steps.at_head(1, summed=not tied),
        ),
    )
    yield Instant(
        name="step before: last layer's backward",
        terms=(*_in_flight(held, "all"), *_experts_added(held)),
        shared=(
            *before,
            held.tokens(2, "policy's backward"),
            steps.going_backward(1),
            steps.backward(1),
        ),
    )
    yield Instant(
        name="step before: last layer recomputed",
        terms=(*_in_flight(held, "all"), *steps.recomputing(1), _row_gradient(held)),
        shared=(*before, held.tokens(2, "policy's backward"), steps.saved_layers(1)),
    )
    yield Instant(
        name="embedding's backward",
        terms=(*_in_flight(held, "end"), *_added(held, _embedding(held), 1)),
        shared=base,
    )


def _logits_gradient(held: Held) -> Iterator[Term]:
    """What reaches the head of a step."""
    yield sampled.rows(
        held.scene,
        soft.VOCABULARY_ROWS,
        held.q.compute_bytes,
        1,
        label="gradient of the token's logits",
    )


def _sum_of_token(held: Held) -> Iterator[Term]:
    """The mixture's gradient of a soft token and its sum with the reward's.

    In half precision they are cast only after the embedding's gradient is there.
    """
    if held.q.compute_bytes == FP32 and not own(held.plan).grade_top_k:
        yield sampled.rows(
            held.scene, soft.VOCABULARY_ROWS, 2 * FP32, 1, label="gradients of the soft token"
        )


def _row_gradient(held: Held) -> Term:
    return held.row(
        "gradient of the row so far",
        held.q.compute_bytes,
        held.role.arch.hidden,
        held.steps.longest,
    )


def _norm_backward(held: Held, role: Role, tokens: Num) -> Term:
    return soft.NORM_BACKWARD(
        role.name,
        tensors=5,
        sequences=held.q.micro_rows,
        tokens=tokens,
        hidden=role.arch.hidden,
    )


def _kl_gradient(held: Held) -> Term:
    return sampled.rows(held.scene, soft.KL_GRADIENT, FP32, held.count)


def _experts_added(held: Held) -> Iterator[Term]:
    """Experts are one weight together, whose sum the layer's own terms leave out."""
    if held.role.arch.sparse_layers and not held.role.adapters:
        yield from _added(held, held.role.largest_layer_weight, 2)


def _in_flight(held: Held, which: str) -> Iterator[Term]:
    """Gradients that wait in the engine for the earlier steps to add theirs."""
    role = held.role
    tied = role.arch.tied and not role.value_head
    late = 0 if tied else _embedding(held)
    trainable: Num = {
        "head": role.head_parameters if role.root_trainable else 0,
        "before embedding": role.trainable - late,
        "layers": role.trainable - late - role.layer_trainable,
        "all": role.trainable,
        "end": where(held.q.micro_batches > 1, _embedding(held), role.trainable),
    }[which]
    yield soft.IN_FLIGHT(
        role.name,
        layout=role.trained_layout if which == "all" else (),
        tensors=role.adapter_tensors,
        trainable=trainable,
        late=0,
        value_bytes=_gradient_bytes(held),
    )


def _added(held: Held, elements: Num, copies: int) -> Iterator[Term]:
    yield soft.STEP_GRADIENT(
        held.role.name,
        tensors=copies,
        copies=copies,
        weight_elements=elements,
        value_bytes=_gradient_bytes(held),
    )


def _embedding(held: Held) -> int:
    """Elements of the embedding, when it trains."""
    role = held.role
    return role.arch.vocab * role.arch.hidden if role.root_trainable else 0


def _gradient_bytes(held: Held) -> int:
    return adapter_bytes(held.scene) if held.role.adapters else held.q.compute_bytes
