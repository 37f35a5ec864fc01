"""A critic that is a second head on the policy's body: one forward, one backward, one optimizer.

The code is ``_shared`` in ``planner/steps/update.py``; what is shared:
docs/decisions/0010-a-shared-critic.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import logits
from planner.formulas.formula import Formula
from planner.phases import positions
from planner.phases.inference import SCORES
from planner.phases.role import Role
from planner.phases.scene import Scene
from planner.phases.training import at_head
from planner.phases.vocabulary import training_head
from planner.term import Instant, Term

VALUE_GRADIENT = Formula(
    "gradient that the value head hands back",
    "scored_tokens * hidden * value_bytes",
    category="activations",
    source="torch autograd: the values come last, so they go backward first; what is added to a "
    "gradient that is yet to come waits. Counted in dry runs",
    why="The hidden states' gradient from the value head is kept until the one from the LM head is "
    "added to it.",
)


def shares(scene: Scene, role: Role) -> bool:
    """Whether this role's body is the critic's as well."""
    return bool(scene.plan.critic == "shared" and role.name == "policy")


def values(scene: Scene) -> tuple[Instant, ...]:
    """Values from the hidden states of a pass without gradient, once they are scored."""
    role, q = scene.policy, scene.q
    one = SCORES(role.name, sequences=q.logprob_rows, tokens=q.logprob_row_tokens)
    return (Instant(name="values", terms=(one,)),)


def kept(scene: Scene, role: Role) -> tuple[Term, ...]:
    """What the value head has kept when the backward begins."""
    return tuple(positions.value_input(scene, role, forward=False)) if shares(scene, role) else ()


def waiting(scene: Scene, role: Role) -> Iterator[Term]:
    """What the value head has handed back while the policy's loss goes backward."""
    if shares(scene, role):
        yield VALUE_GRADIENT(
            role.name,
            scored_tokens=training_head(scene, role).tokens,
            hidden=role.arch.hidden,
            value_bytes=scene.embedding_bytes(role),
        )


def forward_instants(scene: Scene, kept_terms: tuple[Term, ...]) -> Iterator[Instant]:
    """The values of a training forward, beside what scoring has kept."""
    role = scene.policy
    if shares(scene, role):
        scoring = logits.scoring_kept(training_head(scene, role), role=role.name)
        terms = (*scoring, *positions.value_input(scene, role, forward=True))
        yield at_head(scene, role, Instant(name="value head", terms=terms), kept_terms)


def backward_instants(
    scene: Scene, role: Role, kept_terms: tuple[Term, ...], scoring: tuple[Term, ...]
) -> Iterator[Instant]:
    """The values' backward, the first of all, beside what ``scoring`` has kept."""
    if shares(scene, role):
        terms = (*scoring, *kept(scene, role), *waiting(scene, role))
        own = Instant(name="value head's backward", terms=terms)
        yield at_head(scene, role, own, kept_terms, backward=True)
