"""State that a step holds whole is scaled to what the closed form has of it, by hand."""

from __future__ import annotations

from planner.dryrun.ask.stand_in import GATHERED
from planner.dryrun.logs.log import BIRTH, DEATH, STEP, Log, Made
from planner.dryrun.logs.scaled import scaled, shares
from planner.estimate import estimate
from planner.plan import Plan

WEIGHTS, GRADIENTS = ("policy", "parameters"), ("policy", "gradients")


def log_of(weights_bytes: int, gradients_bytes: int) -> Log:
    """Weights made before the steps, gradients made and dropped in each."""
    sizes = {0: (weights_bytes, "parameters"), 1: (gradients_bytes, "gradients")}
    made = {
        key: Made(size, "op", "", "policy", category, (size,), "int8")
        for key, (size, category) in sizes.items()
    }
    step = [(BIRTH, 1, gradients_bytes), (DEATH, 1, gradients_bytes)]
    events = [(BIRTH, 0, weights_bytes), (STEP, 0, 0), *step, (STEP, 1, 0), *step]
    return Log(events=events, made=made)


def test_weights_that_are_there_before_the_step_are_scaled_with_the_rest() -> None:
    closed = estimate(Plan(method="sft", gpus=8, sharding="zero3"))
    state = {
        who: max(
            sum(int(t.bytes) for t in phase.terms if not t.host and (t.role, t.category) == who)
            for phase in closed.phases
        )
        for who in (WEIGHTS, GRADIENTS)
    }
    log = log_of(4 * state[WEIGHTS], 2 * state[GRADIENTS])
    by = shares(log, closed, ["parameters", "gradients"])
    assert by == {WEIGHTS: 0.25, GRADIENTS: 0.5}
    assert [made.size_bytes for made in scaled(log, by).made.values()] == list(state.values())


def test_what_waits_in_host_ram_leaves_a_losss_own_gradients_where_they_are() -> None:
    def gradient(module: str, *, host: bool = False) -> Made:
        return Made(8, "op", module, "policy", "gradients", (8,), "int8", host=host)

    made = {0: gradient("norm.weight"), 1: gradient(""), 2: gradient("norm.weight", host=True)}
    events = [(BIRTH, key, 8) for key in made]
    left = scaled(Log(events=events, made=made), {}, ["gradients"])
    assert left.events == [(BIRTH, 1, 8), (BIRTH, 2, 8)]


def test_weights_that_the_step_gathers_are_no_state() -> None:
    plan = Plan(method="sft", gpus=8, sharding="fsdp2", rollout="none", kl="none")
    closed = estimate(plan)
    [backward] = [phase for phase in closed.phases if phase.name == "policy backward"]
    state = sum(
        int(term.bytes)
        for term in backward.terms
        if term.name == "weights" and not term.host and term.role == "policy"
    )
    by = shares(log_of(state, 1), closed, ["parameters"], GATHERED)
    assert by == {WEIGHTS: 1.0}
