"""The backward of a GRADE step, moment by moment.

Weights are used in every step, so their gradients are summed in autograd's engine until the
first step's backward is done; the second use of a weight adds the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.formulas import soft_generation as soft
from planner.methods.grade import reference_run
from planner.methods.grade.bundles import Bundles, Held
from planner.methods.grade.soft_tokens import FP32
from planner.numeric import Num, where
from planner.phases.baseline import adapter_bytes, resident
from planner.phases.role import Role
from planner.term import Instant, Standing, Term
from planner.values.step_phases import POLICY_UPDATE


def _at(name: str, beside: Bundles, terms: Iterable[Term], *more: tuple[Term, ...]) -> Instant:
    return Instant(name=name, terms=tuple(terms), shared=(*beside, *more))


def backward_instants(held: Held) -> Iterator[Instant]:
    """From the reward's backward to the embedding's."""
    base = (resident(held.scene, Standing(POLICY_UPDATE, "accumulated")), held.rows)
    known = (*base, *held.all_steps, held.batch_kl)
    reward = held.reward
    judging = (*known, held.tokens(0, "reward's backward"), reward.inputs(), reward.saved())
    yield _at("reward model's last layer's backward", judging, reward.backward())
    norm = (_norm_backward(held, reward.role, held.count), *reward.in_norm())
    yield _at("reward model's final norm's backward", judging, norm)
    gradient = reward.gradient()
    generated = (*known, held.tokens(0, "policy's backward"), gradient)
    yield _at("soft tokens' gradient", generated, reward.unmixing())
    if held.batch:
        passing = reference_run.batch_backward(held.soft)
        yield _at("gradient of the KL of all steps", generated, passing)
        gradient = (*gradient, held.soft.rows(soft.KL_GRADIENT, FP32, held.count))
    yield from _policy(held, (*base, gradient))


def _policy(held: Held, base: Bundles) -> Iterator[Instant]:
    steps, role, width = held.steps, held.role, held.q.compute_bytes
    kept = (*base, held.tokens(1, "policy's backward"))
    later = (*kept, held.below(0))
    if held.own.grade_step_checkpointing:
        yield _at("last step run again", later, steps.run_again(), (_reaching_head(held),))
    head, layers, every = (_in_flight(held, of) for of in ("head", "layers", "all"))
    norm = (head, *steps.in_norm(0), _norm_backward(held, role, steps.longest))
    yield _at("last step's final norm's backward", later, norm, steps.saved_layers(0))
    yield _at(
        "last step's last layer's backward",
        later,
        (head,),
        steps.going_backward(0),
        steps.backward(0),
    )
    first = (*steps.first_layer(0), layers)
    yield _at("last step's first layer's backward", later, (*first, *steps.backward(0)))
    # The row's gradient came with the later step, whose row was one token longer.
    row = held.row("gradient of the row so far", width, role.arch.hidden, steps.longest)
    yield _at("last step's first layer recomputed", later, (*first, *steps.recomputing(0), row))
    tied = role.arch.tied
    yield _at(
        "last soft token's embedding's backward",
        kept,
        (
            every if tied else _in_flight(held, "before embedding"),
            _added(held, _embedding(held), 2 if tied else 1),
            row,
            *_sum_of_token(held),
        ),
        steps.finished(1),
    )
    before = (*base, held.below(1), (row,), held.tokens(2, "policy's backward"))
    reaching = (_reaching_head(held),) * tied
    yield _at(
        "step before: head's backward",
        before,
        (every, _added(held, _embedding(held), 1 if tied else 2), *reaching),
        steps.saved_layers(1),
        steps.at_head(1, summed=not tied),
    )
    # Experts are one weight together, whose sum the layer's own terms leave out.
    experts = role.arch.sparse_layers and not role.adapters
    more = (_added(held, role.largest_layer_weight, 2),) if experts else ()
    yield _at(
        "step before: last layer's backward",
        before,
        (every, *more),
        steps.going_backward(1),
        steps.backward(1),
    )
    again = (every, *steps.recomputing(1), row)
    yield _at("step before: last layer recomputed", before, again, steps.saved_layers(1))
    end = (_in_flight(held, "end"), _added(held, _embedding(held), 1))
    yield _at("embedding's backward", base, end)


def _sum_of_token(held: Held) -> Iterator[Term]:
    """The mixture's gradient of a soft token and its sum with the reward's.

    In half precision they are cast only after the embedding's gradient is there.
    """
    if held.q.compute_bytes == FP32 and not held.own.grade_top_k:
        label = "gradients of the soft token"
        yield held.soft.rows(soft.VOCABULARY_ROWS, 2 * FP32, 1, label=label)


def _reaching_head(held: Held) -> Term:
    """What reaches the head of a step."""
    label = "gradient of the token's logits"
    return held.soft.rows(soft.VOCABULARY_ROWS, held.q.compute_bytes, 1, label=label)


def _norm_backward(held: Held, role: Role, tokens: Num) -> Term:
    return soft.NORM_BACKWARD(
        role.name,
        tensors=5,
        sequences=held.q.micro_rows,
        tokens=tokens,
        hidden=role.arch.hidden,
    )


def _in_flight(held: Held, which: str) -> Term:
    """Gradients that wait in the engine for the earlier steps to add theirs."""
    role = held.role
    embedding = _embedding(held)
    late = 0 if role.arch.tied and not role.value_head else embedding
    trainable: Num = {
        "head": role.head_parameters if role.root_trainable else 0,
        "before embedding": role.trainable - late,
        "layers": role.trainable - late - role.layer_trainable,
        "all": role.trainable,
        "end": where(held.q.micro_batches > 1, embedding, role.trainable),
    }[which]
    return soft.IN_FLIGHT(
        role.name,
        layout=role.trained_layout if which == "all" else (),
        tensors=role.adapter_tensors,
        trainable=trainable,
        late=0,
        value_bytes=_gradient_bytes(held),
    )


def _added(held: Held, elements: Num, copies: int) -> Term:
    return soft.STEP_GRADIENT(
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
