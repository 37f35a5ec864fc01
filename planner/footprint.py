"""What every rung of evidence answers with: phases, footprint, verdict.

Pure data; imports a plan and what lies below it, and :mod:`planner.term`. Values are ``int`` for
one plan and arrays for a sweep; see :data:`planner.numeric.Num`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from planner.numeric import Num, chosen, maximum, number_of_most
from planner.plan import Plan
from planner.plan.references import ReferenceCache
from planner.speeds import Speeds
from planner.term import AWAKE, CATEGORIES, POOL, Category, Term, TimeTerm
from planner.values.step_phases import StepPhase

Source = Literal["estimate", "dry run", "trial"]

@dataclass(frozen=True, slots=True, kw_only=True)
class StatedError:
    """Relative error of ``device_bytes`` to expect, signed; None when nobody measured it.

    Predicted over measured, less one: below zero where predictions were too low.
    """

    low: float | None
    high: float | None
    source: str

    def real_bytes(self, device_bytes: int) -> tuple[int, int] | None:
        """Least and most bytes that a prediction stands for; None when nobody measured it."""
        if self.low is None or self.high is None:
            return None
        return round(device_bytes / (1 + self.high)), round(device_bytes / (1 + self.low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Predicted seconds × ``low`` to × ``high`` is where published runs lay."""

    low: float
    high: float
    rows: int
    words: str
    """How many runs of which regime, and that it is a wider one than asked for where it is."""


class Done(NamedTuple):
    """Of one step; numbers, or arrays of a sweep's grid."""

    tokens: Num
    """Prompt and response tokens of all its sequences, padding left out."""
    model_flops: Num
    """Operations on one GPU that forward and backward of what trains need for its tokens."""
    performed_flops: Num
    """The same with padding, and with all that is computed a second time."""
    updates: tuple[str, ...]
    """Phases that make an update: forward, backward and optimizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase's peak: the instant that owns it, its terms, and the four totals.

    ``terms`` sum to ``requested_bytes`` plus what is outside the allocator; the
    ``allocator`` terms lead from requested to reserved.
    """

    kind: StepPhase
    role: str
    rank: str
    instant: str
    terms: tuple[Term, ...]
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    host_bytes: int | None
    seconds: float | None
    times: tuple[TimeTerm, ...] = ()
    """What ``seconds`` are made of; they sum to it. Empty where that is not known."""
    doubt: Factors | None = None
    """How far published runs lay from such seconds; None where ``seconds`` are."""
    per_step: bool = True
    occasions: int = 0
    """How often the run has it where its steps do not: ``seconds`` are of one of them."""
    executed: bool = True
    """As in :class:`PhasePlan`."""
    inherited_bytes: int = 0
    """Of ``reserved_bytes``, what it finds cached by others and never uses."""
    source: Source = "estimate"
    """Which rung this phase's figures are from."""
    error: StatedError | None = None
    """Of ``device_bytes``, where trials or committed measurements say it; else None."""

    @property
    def name(self) -> str:
        """Which phase of the step it is."""
        return self.kind.name

    @property
    def low_seconds(self) -> float | None:
        """The least that ``seconds`` stand for; None where they or their error are not known."""
        return lowest(self.seconds, self.doubt)

    @property
    def high_seconds(self) -> float | None:
        """The most that they stand for."""
        return highest(self.seconds, self.doubt)

    @property
    def own_bytes(self) -> int:
        """Device bytes that its own instants need: without what it only inherits."""
        return self.device_bytes - self.inherited_bytes

    @property
    def pool_bytes(self) -> int:
        """Of ``device_bytes``, what an engine's share leaves for its cache: chosen, not needed."""
        return sum([int(term.bytes) for term in self.terms if term.name == POOL])

    @property
    def training_bytes(self) -> int:
        """Device bytes without an engine that is awake, since all of that is its own share."""
        engine = [term for term in self.terms if term.category == "engine" and not term.host]
        awake = any(term.name == AWAKE for term in engine)
        return self.device_bytes - awake * sum(int(term.bytes) for term in engine)

    @property
    def low_bytes(self) -> int:
        """Device bytes at the lower bounds of all that nobody can know exactly."""
        return self.device_bytes - self._below(host=False)

    @property
    def high_bytes(self) -> int:
        """Device bytes at their upper bounds."""
        return self.device_bytes + self._above(host=False)

    @property
    def host_low_bytes(self) -> int | None:
        """Host RAM of a node at the lower bounds; None where it is not known."""
        return None if self.host_bytes is None else self.host_bytes - self._below(host=True)

    @property
    def host_high_bytes(self) -> int | None:
        """Host RAM of a node at the upper bounds; None where it is not known."""
        return None if self.host_bytes is None else self.host_bytes + self._above(host=True)

    def _below(self, *, host: bool) -> int:
        doubtful = [term for term in self.terms if term.low is not None and term.host is host]
        return sum(int(term.bytes - term.low) for term in doubtful)

    def _above(self, *, host: bool) -> int:
        doubtful = [term for term in self.terms if term.high is not None and term.host is host]
        return sum(int(term.high - term.bytes) for term in doubtful)

    @property
    def most_bytes(self) -> int:
        """The upper bound, or what is measured at most where predictions were too low."""
        real = None if self.error is None else self.error.real_bytes(self.device_bytes)
        return self.high_bytes if real is None else max(self.device_bytes, real[1])

    @property
    def least_bytes(self) -> int:
        """The lower bound, or what is measured at least where predictions were too high."""
        real = None if self.error is None else self.error.real_bytes(self.device_bytes)
        return self.low_bytes if real is None else min(self.device_bytes, real[0])

    def by_category(self) -> dict[Category, int]:
        """GPU bytes of the peak by category; sums to ``device_bytes``."""
        sums: dict[Category, int] = {}
        for term in self.terms:
            if not term.host:
                sums[term.category] = sums.get(term.category, 0) + int(term.bytes)
        return {category: sums[category] for category in CATEGORIES if sums.get(category)}


def lowest(figure: float | None, doubt: Factors | None) -> float | None:
    """The least of what comes of seconds in proportion; None where it or its error is unknown."""
    return None if figure is None or doubt is None else figure * doubt.low


def highest(figure: float | None, doubt: Factors | None) -> float | None:
    """The most of it."""
    return None if figure is None or doubt is None else figure * doubt.high


def worst_of(phases: Sequence[Phase]) -> Phase:
    """The phase that makes the peak."""
    number = number_of_worst(
        [phase.rank for phase in phases],
        device=[phase.device_bytes for phase in phases],
        allocated=[phase.allocated_bytes for phase in phases],
        inherited=[phase.inherited_bytes for phase in phases],
        reserved=[phase.reserved_bytes for phase in phases],
    )
    return phases[number]


def number_of_worst(
    ranks: Sequence[str],
    *,
    device: Sequence[Num],
    allocated: Sequence[Num],
    inherited: Sequence[Num],
    reserved: Sequence[Num],
) -> Num:
    """Number of the phase that makes the peak: bytes that a phase only inherits do not count.

    It is the one with the most device bytes, or the one whose cache that one inherits, whichever
    needs more by its own instants. Each argument has a value a phase, in bytes but for ``ranks``.
    """
    every = range(len(ranks))
    trainers = [number for number in every if ranks[number] == "trainer"] or every
    highest = number_of_most([(device[number], allocated[number]) for number in every])
    makes = number_of_most([(reserved[number] - inherited[number],) for number in trainers])
    either = highest, chosen(makes, trainers)
    own = [(chosen(n, device) - chosen(n, inherited), chosen(n, allocated)) for n in either]
    return chosen(number_of_most(own), either)


def trainers_own(peaks: Iterable[tuple[str, Num]]) -> Num:
    """The trainer's own peak, of each phase's rank and requested bytes.

    The most bytes that the trainer's tensors ask for at once (``requested_bytes`` in
    ``torch.cuda.memory_stats``): without an engine beside it, the CUDA context and what the
    allocator rounds up or keeps.
    """
    return maximum(*(requested for rank, requested in peaks if rank == "trainer"))


def training_of(phases: Sequence[Phase]) -> Phase:
    """The phase in which training needs most, an engine that is awake beside it left out."""
    trainers = [phase for phase in phases if phase.rank == "trainer"]
    return max(trainers or phases, key=lambda phase: (phase.training_bytes, phase.allocated_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What a rollout engine takes by its share of a card, whatever is trained.

    ``sequences`` of whole length are what its cache holds at once.
    """

    share_bytes: int
    sequences: int


Word = Literal["fits", "tight", "out of memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Something that a plan can meet: a card, a node's host RAM, an engine's start, the load."""

    name: str
    """As a person reads it, such as "card of the trainer" or "host RAM of a node"."""
    word: Word
    bytes: int
    """What the plan needs of it."""
    high_bytes: int
    """The most that it may need."""
    budget_bytes: int
    phase: str
    """The phase that needs it."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``fits``, ``tight`` or ``out of memory``, and the worst limit's sentence, which says so."""

    word: Word
    sentence: str
    limits: tuple[Limit, ...] = ()
    """Every limit that is known, the worst first."""
    lines: tuple[str, ...] = ()
    """What stands below the sentence: every other limit, and every fault that is known."""
    incomplete: bool = False
    """Whether a part of the plan is left out, so that the word is of the rest alone."""

    @property
    def said(self) -> str:
        """The word for a person: of a plan with a part left out none of the three."""
        return "incomplete" if self.incomplete else self.word


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The answer of any rung of evidence."""

    source: Source
    plan: Plan
    verdict: Verdict
    budget_bytes: int
    phases: tuple[Phase, ...]
    worst: Phase
    step_seconds: float | None
    error: StatedError
    assumptions: tuple[str, ...] = ()
    """What the answer assumes or leaves out; it stands above the headline."""
    warnings: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    speeds: Speeds | None = None
    """The benchmark that the estimate was given for its times; None where it was given none."""
    seconds_source: str = ""
    """What the times rest on, with versions."""
    doubt: Factors | None = None
    """How far published steps lay from such seconds as ``step_seconds``."""
    done: Done | None = None
    """What a step computes, which rates are taken of; None where nothing was estimated."""
    reference_cache: ReferenceCache | None = None
    """What a cached reference costs beside the step's memory; None where the plan has none."""
    pool: Pool | None = None
    """What an engine takes by its share; None where the plan has no such engine."""
    alloc_retries: int = 0
    """How often a step was seen to give cached memory back to stay within the card."""

    @property
    def priced(self) -> bool:
        """Whether time and money are those of the plan: it runs, and no part is left out."""
        return self.verdict.word != "out of memory" and not self.verdict.incomplete

    @property
    def low_seconds(self) -> float | None:
        """The least that ``step_seconds`` stand for; None where they or their error are unknown."""
        return lowest(self.step_seconds, self.doubt)

    @property
    def high_seconds(self) -> float | None:
        """The most that they stand for."""
        return highest(self.step_seconds, self.doubt)

    @property
    def occasional(self) -> tuple[Phase, ...]:
        """What the run has between its steps, with the seconds of one: checkpoints, validations."""
        return tuple(one for one in self.phases if one.occasions and one.seconds is not None)

    @property
    def device_bytes(self) -> int:
        """The most that the driver sees in any phase, cached memory included."""
        return max(phase.device_bytes for phase in self.phases)

    @property
    def low_bytes(self) -> int:
        """The most of any phase at its lower bound."""
        return max(phase.low_bytes for phase in self.phases)

    @property
    def high_bytes(self) -> int:
        """The most of any phase at its upper bound."""
        return max(phase.high_bytes for phase in self.phases)

    @property
    def trainer_bytes(self) -> int:
        """The trainer's own peak; see :func:`trainers_own`."""
        return int(trainers_own((phase.rank, phase.requested_bytes) for phase in self.phases))

    @property
    def engine_bytes(self) -> int:
        """The most that a rollout engine holds of the trainer's card; 0 where none shares it."""
        trainers = (phase for phase in self.phases if phase.rank == "trainer")
        return max(phase.by_category().get("engine", 0) for phase in trainers)

    @property
    def host_bytes(self) -> int | None:
        """Most host RAM of one node in any phase."""
        return most_known(phase.host_bytes for phase in self.phases)

    @property
    def host_low_bytes(self) -> int | None:
        """The most of any phase at its lower bound."""
        return most_known(phase.host_low_bytes for phase in self.phases)

    @property
    def host_high_bytes(self) -> int | None:
        """The most of any phase at its upper bound."""
        return most_known(phase.host_high_bytes for phase in self.phases)


def most_known(figures: Iterable[int | None]) -> int | None:
    """The largest that is known; None where none is."""
    return max((figure for figure in figures if figure is not None), default=None)
