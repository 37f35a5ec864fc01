"""A phase before anything is added up: its instants, and its rows of the table of work.

The table says, for each model and pass of a phase, how many positions run through the layers, how
many of them meet the head, and how often: on one GPU, in one step. Times
(:mod:`planner.timing`) and the trial's cadence read the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from planner.formulas.compute import (
    BACKWARD_FLOPS,
    attention_flops,
    head_flops,
    layers_flops,
)
from planner.lengths import Lengths
from planner.numeric import Num, ceil_div
from planner.phases.role import Role
from planner.plan import Plan
from planner.term import Instant, Standing, Term, TimeTerm
from planner.values.step_phases import StepPhase

if TYPE_CHECKING:
    from planner.phases.scene import Scene

Pass = Literal["score", "forward", "backward", "optimizer", "decode", "send", "read", "write"]
"""A forward without gradient, one with it, its backward, an update, a rollout, a weight sync, and
files read from a disk or written to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one pass of a phase computes in a whole step, on one GPU."""

    role: Role
    run: Pass
    tokens: Num = 0
    """Positions that run through the layers."""
    row_tokens: Num = 1
    """Positions of one row, which attention does not leave."""
    scored_tokens: Num = 0
    """Positions that meet the vocabulary."""
    rounds: Num = 1
    """Times that the pass is run."""
    imbalance: Num = 1
    """Positions on the GPU with the most, which the others wait for, over ``tokens``."""
    layer_runs: Num = 0
    """Layers that run one by one, where a round is more than one forward; 0: a round is one."""
    recomputed: int = 0
    """Times that a backward repeats the layers' forward."""
    scored_again: int = 0
    """Times that a backward makes the logits again: losses that never hold all of them do."""
    beside: bool = False
    """Runs inside the pass of the row before it, whose traffic hides behind both."""
    gathered: bool = True
    """Whether sharded weights are gathered for it."""
    elsewhere: bool = False
    """Runs on other GPUs, as many of the same card, which are waited for."""
    host_bytes: Num = 0
    """Bytes that come from host RAM for it, or from a disk where it reads; where it writes, all
    that one node does."""

    @property
    def flops(self) -> Num | None:
        """Floating-point operations; None where there are next to none."""
        if self.run in ("optimizer", "send", "read", "write"):
            return None
        sizes = self.tokens, self.row_tokens, self.scored_tokens
        return self.flops_of(*sizes, self.recomputed, self.scored_again)

    def flops_of(
        self,
        tokens: Num,
        row_tokens: Num,
        scored_tokens: Num,
        recomputed: int = 0,
        scored_again: int = 0,
    ) -> Num:
        """The same of a pass over so many positions, by default one that makes all of it once."""
        arch = self.role.arch
        layers = layers_flops(arch, tokens=tokens)
        attention = attention_flops(arch, tokens=tokens, row_tokens=row_tokens)
        head = head_flops(arch, tokens=scored_tokens)
        if self.run != "backward":
            return layers + attention + head
        trains = self.role.trained and not self.role.adapters
        once = BACKWARD_FLOPS(
            linear_flops=layers,
            attention_flops=attention,
            weights_train=int(trains),
            recomputed_flops=0,
        )
        again = recomputed * (layers + attention)
        return once + again + (1 + trains + scored_again) * head


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding(Work):
    """Responses token by token: ``sequences`` on each engine.

    ``response_tokens`` is the cap, ``lengths`` how long the responses are below it.
    """

    sequences: Num
    prompt_tokens: Num
    response_tokens: Num
    lengths: Lengths
    engine: Literal["hf", "vllm"]
    max_num_seqs: Num
    kv_value_bytes: int
    chunk_tokens: Num
    """Prompt tokens of one pass at most."""
    tensor_parallel: int = 1
    expert_parallel: bool = False
    engines: Num = 1
    """Engines that are waited for together."""
    group: Num = 1
    """Responses that share the cache of their prompt."""
    cache_tokens: Num | None = None
    """Tokens that the cache has room for, where it may be short of it."""
    eager: bool = False
    async_scheduling: bool = True
    """The engine schedules the next step beside the card."""
    quantized: bool = False
    """The engine's layers have fp8 weights."""
    rewarded: Num = 0
    """Responses of all engines whose rewards are waited for."""


class PhasePlan(NamedTuple):
    """A phase with its instants, and what its seconds are of: rows of ``work``, ``times``, or both.

    Without either no time can be derived from the plan.
    ``rank`` says whose GPU it happens on: ``trainer``, or ``rollout`` for GPUs that
    only hold a separate engine.
    """

    kind: StepPhase
    role: str
    instants: tuple[Instant, ...]
    work: tuple[Work, ...] = ()
    times: tuple[TimeTerm, ...] = ()
    """Seconds that the method states itself: of tools, environments, services."""
    rank: str = "trainer"
    per_step: bool = True
    occasions: Num = 0
    """How often a run has it where its steps do not; 0 where nobody said how often."""
    executed: bool = True
    """Whether the step's own code is what happens in it, so that a dry run has it too."""

    @property
    def name(self) -> str:
        """Which phase of the step it is."""
        return self.kind.name


def waiting(
    kind: StepPhase,
    role: str,
    meanwhile: str,
    *times: TimeTerm,
    kept: tuple[Term, ...] = (),
    work: tuple[Work, ...] = (),
) -> PhasePlan:
    """A phase in which the trainer's GPUs compute nothing, and hold what always stands there.

    Args:
        kind: which phase.
        role: for whom others work.
        meanwhile: what they do, as a moment is called.
        times: what takes how long.
        kept: what is held for the update, besides.
        work: what other GPUs compute.
    """
    instant = Instant(name=meanwhile, terms=(), shared=(Standing(kind.moment), kept))
    return PhasePlan(
        kind=kind, role=role, instants=(instant,), work=work, times=times, executed=False
    )


def occasions(plan: Plan, interval: int) -> int:
    """How often a run has what comes every ``interval`` steps, and after the last; 0 for 0."""
    return int(ceil_div(plan.steps, interval)) if interval else 0


def scoring(scene: Scene, role: Role, *, scored_tokens: Num, elsewhere: bool = False) -> Work:
    """All sequences of the step once through a role, in forwards without gradient."""
    passes = scene.q.scoring
    return Work(
        role=role,
        run="score",
        tokens=passes.tokens,
        row_tokens=passes.row_tokens,
        scored_tokens=scored_tokens,
        rounds=passes.rounds,
        imbalance=passes.imbalance,
        elsewhere=elsewhere,
        gathered=not scene.stays_whole(role),
    )


def at_head(row: Work, *, scored_again: int = 0) -> Work:
    """A row's positions once more through the head alone, inside the row's pass."""
    return replace(
        row, tokens=0, recomputed=0, scored_again=scored_again, beside=True, gathered=False
    )


def training(
    scene: Scene,
    role: Role,
    run: Literal["forward", "backward"],
    *,
    scored_tokens: Num,
    scored_again: int = 0,
) -> Work:
    """All sequences of the step once forward or backward through a trained role."""
    passes = scene.q.training
    return Work(
        role=role,
        run=run,
        tokens=passes.tokens,
        row_tokens=passes.row_tokens,
        scored_tokens=scored_tokens,
        rounds=passes.rounds,
        imbalance=passes.imbalance,
        recomputed=int(run == "backward" and scene.plan.gradient_checkpointing == "full"),
        scored_again=scored_again,
    )


def updating(scene: Scene, role: Role) -> Work:
    """The optimizer's updates of a step."""
    return Work(role=role, run="optimizer", rounds=scene.q.optimizer_rounds)
