"""Plan + axes → one tidy row per plan, through the very formulas of an estimate.

Fields of :data:`planner.quantities.VECTOR_FIELDS` are swept as arrays, others (model, card,
switches) plan by plan. pandas is imported here only, when a sweep is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from planner.cost import gpu_hours, price_of
from planner.estimate import MARGIN, phase_plans
from planner.footprint import OUTSIDE, Instant, trainers_own
from planner.formulas.growth import GROWN, most_growth
from planner.formulas.throughput import MODEL_FLOPS_UTILIZATION, TOKENS_PER_SECOND
from planner.grid import Grid, followed
from planner.levels import Adder, Totals
from planner.numeric import Num, maximum, total, where
from planner.phases import engine
from planner.phases.phase import PhasePlan
from planner.phases.reference_cache import pass_seconds
from planner.phases.scene import Scene, scene_of
from planner.plan import FIELDS, Plan, try_plan
from planner.plan.facts import facts_of
from planner.plan.rules import valid
from planner.quantities import VECTOR_FIELDS
from planner.segments import Reserved, reserved
from planner.speeds import Speeds, obstacle
from planner.timing.done import Done, done_of
from planner.timing.doubt import doubt_of
from planner.timing.phase import phase_terms
from planner.timing.step import spent, step_seconds

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray[Any, Any]

LIMIT = 20_000_000
"""Most plans of one sweep; more would not fit into memory as a table."""

PASS = 50_000
"""Plans that are judged in one pass: arrays of more have to be got from the system each time."""

UNKNOWN = float("nan")

WORDS = ("fits", "tight", "out of memory")


def sweep(
    plan: Plan, over: Mapping[str, Sequence[Any]], speeds: Speeds | None = None
) -> pd.DataFrame:
    """One row per combination of the values in ``over``, in the order given.

    Columns: the swept fields, ``valid`` (False: that combination is no plan, its
    numbers are missing), ``requested_bytes``, ``reserved_bytes``, ``device_bytes``,
    ``trainer_bytes`` (:func:`planner.footprint.trainers_own`), ``engine_bytes`` (the most that an
    engine holds of the trainer's card), ``host_bytes``, ``budget_bytes``, ``verdict``,
    ``worst_phase``, ``trainer_phase`` (of the trainer's own peak), ``step_seconds`` with
    ``low_step_seconds`` and ``high_step_seconds``, ``tokens_per_second_per_gpu``, ``mfu`` (of the
    update), ``gpu_hours_run`` and ``usd_run`` with ``low_usd_run`` and ``high_usd_run`` (NaN when
    unknown; no hours and no dollars of a plan that does not run), and ``phase: <name>`` with each
    phase's device bytes.

    ``speeds`` are a benchmark's shares of the card's peaks; rows with another card have those of
    the catalog.

    Raises:
        ValueError: naming an axis that is not a field, has no values or is too large, or a
            benchmark of another card or torch version than the plan's.
    """
    import pandas as pd

    _check(over)
    why = obstacle(speeds, plan) if speeds is not None else ""
    if why:
        raise ValueError(why)
    arrays = {field: values for field, values in over.items() if field in VECTOR_FIELDS}
    others = {field: values for field, values in over.items() if field not in VECTOR_FIELDS}
    parts = [
        _part(plan, dict(zip(others, combination, strict=True)), piece, speeds)
        for combination in product(*others.values())
        for piece in _pieces(arrays)
    ]
    names = dict.fromkeys((*over, "valid", *chain(*(part.columns for part in parts))))
    table = pd.DataFrame({name: _column(name, parts) for name in names})
    if not table["valid"].all():
        numbers = [name for name in names if name not in (*over, "valid")]
        table[numbers] = table[numbers].where(table["valid"])
    return table


def _check(over: Mapping[str, Sequence[Any]]) -> None:
    size = 1
    for field, values in over.items():
        if field not in FIELDS:
            raise ValueError(
                f"{field}: is not a field of a plan; choose one of {', '.join(FIELDS)}."
            )
        if not len(values):
            raise ValueError(f"{field}: has no values to sweep over; give at least one.")
        size *= len(values)
    if size > LIMIT:
        raise ValueError(f"over: {size:,} plans are too many for one sweep; stay below {LIMIT:,}.")


def _pieces(arrays: Mapping[str, Sequence[int]]) -> Iterator[Mapping[str, Sequence[int]]]:
    """The arrays in the order of their rows, the first of them cut to what one pass judges."""
    if not arrays:
        yield arrays
        return
    first = next(iter(arrays))
    rows = int(np.prod([len(values) for field, values in arrays.items() if field != first]))
    most = max(PASS // max(rows, 1), 1)
    for start in range(0, len(arrays[first]), most):
        yield {**arrays, first: arrays[first][start : start + most]}


class _Words(NamedTuple):
    """A column of words: the number of each row's word, below 0 where it has none."""

    codes: Array
    words: Sequence[str]


class _Part(NamedTuple):
    """The rows of one combination of the fields that are not arrays; a table is made of all."""

    rows: int
    columns: Mapping[str, Any]


def _part(
    plan: Plan,
    changes: Mapping[str, Any],
    arrays: Mapping[str, Sequence[int]],
    speeds: Speeds | None,
) -> _Part:
    base, _ = try_plan({**plan.model_dump(), **followed(plan, changes)})
    shape = tuple(len(values) for values in arrays.values())
    columns: dict[str, Any] = dict(changes)
    count = int(np.prod(shape, dtype=np.int64))
    if base is None:
        # The arrays may mend what the changes broke, but a sweep says so, not guesses.
        for position, (field, values) in enumerate(arrays.items()):
            columns[field] = _along(values, shape, position)
        return _Part(count, {**columns, "valid": False})
    grid = Grid(base, arrays)
    for field in arrays:
        columns[field] = grid.spread(getattr(grid, field), np.int64)
    columns.update(judge(grid, speeds))
    return _Part(count, columns)


def _column(name: str, parts: Sequence[_Part]) -> Any:
    """One column of the table; NaN, or no word, in parts that lack it."""
    import pandas as pd

    found = [part.columns.get(name, np.nan) for part in parts]
    if not any(isinstance(values, _Words) for values in found):
        # Plain values are repeated in one go, so that texts stay texts.
        if not any(isinstance(values, np.ndarray) for values in found):
            return np.repeat(np.asarray(found), [part.rows for part in parts])
        return _joined(
            values if isinstance(values, np.ndarray) else np.full(part.rows, values)
            for values, part in zip(found, parts, strict=True)
        )
    words = pd.Index(list(dict.fromkeys(chain(*(v.words for v in found if type(v) is _Words)))))
    codes = _joined(
        words.get_indexer(pd.Index(list(values.words))).astype(np.int8)[values.codes]
        if isinstance(values, _Words)
        else np.full(part.rows, -1, dtype=np.int8)
        for values, part in zip(found, parts, strict=True)
    )
    return pd.Categorical.from_codes(codes, words)


def _joined(arrays: Iterable[Array]) -> Array:
    first, *rest = arrays
    return np.concatenate((first, *rest)) if rest else first


def _along(values: Sequence[int], shape: tuple[int, ...], position: int) -> Array:
    mesh = [1] * len(shape)
    mesh[position] = len(values)
    return np.broadcast_to(np.asarray(values).reshape(mesh), shape).ravel()


def judge(grid: Grid, speeds: Speeds | None = None) -> dict[str, Any]:
    """The columns of every plan of a grid."""
    facts = facts_of(grid, speeds)
    scene = scene_of(cast("Plan", grid), facts)  # it reads like one
    plans = phase_plans(scene)
    adder = Adder(grid.expandable_segments, total)
    sums = [[adder.totals(instant) for instant in phase.instants] for phase in plans]
    peaks = [_peak(grid, phase, each) for phase, each in zip(plans, sums, strict=True)]
    needed, kept = ([peak[name] for peak in peaks] for name in ("needed", "kept"))
    segments = reserved(scene.plan, plans, needed, kept, sums, facts.budget_bytes)
    growth = most_growth(scene.plan, [one.held for one in segments])
    worst = _Worst(grid, growth, facts.budget_bytes)
    columns = {}
    for number, (phase, peak, held) in enumerate(zip(plans, peaks, segments, strict=True)):
        columns[f"phase: {phase.name}"] = worst.meet(number, phase.rank, peak, held)
    found = worst.found()
    blocked = np.asarray(_blocked(scene, peaks))
    out = (worst.device > facts.budget_bytes) | grid.spread(blocked, bool)
    little = (worst.device > MARGIN * facts.budget_bytes) | (worst.high > facts.budget_bytes)
    code = np.where(out, 2, little)
    names = [phase.name for phase in plans]
    return {
        "valid": grid.spread(valid(grid), bool),
        "requested_bytes": found["requested"],
        "reserved_bytes": found["reserved"],
        "device_bytes": worst.device,
        "low_bytes": worst.low,
        "high_bytes": worst.high,
        "trainer_bytes": grid.spread(_own(plans, peaks), np.int64),
        "engine_bytes": grid.spread(_pool(scene), np.int64),
        "host_bytes": grid.spread(maximum(*(peak["host"] for peak in peaks)), np.int64),
        "budget_bytes": facts.budget_bytes,
        "verdict": _Words(code, WORDS),
        "worst_phase": _Words(found["number"], names),
        "trainer_phase": _Words(grid.spread(_own_phase(plans, peaks), np.int8), names),
        **_money(grid, scene, _times(scene, plans), out),
        **columns,
    }


class _Worst:
    """The phase that makes the peak, plan by plan: :func:`planner.footprint.worst_of` on arrays."""

    def __init__(self, grid: Grid, growth: Num, card: Num) -> None:
        self._grid, self._growth, self._card = grid, growth, card
        self._size = int(np.prod(grid.shape, dtype=np.int64))
        self._highest: dict[str, Array] = {}
        self._maker: dict[str, Array] = {}
        self.low = self.high = np.zeros(self._size, dtype=np.int64)

    @property
    def device(self) -> Array:
        """The most device bytes of any phase."""
        return self._highest["device"]

    def meet(self, number: int, rank: str, peak: Mapping[str, Num], held: Reserved) -> Array:
        """Take a phase into account; returns its device bytes.

        ``peak`` is of its own instants, ``held`` what it reserves.
        """
        low, reserved, high = held.total
        outside, own = peak["outside"], held.own.centre
        self.low = np.maximum(self.low, self._spread(low + outside - peak["below"]))
        most = high + outside + peak["above"]
        if held.held is not None:
            size = {"most": self._growth, "card": self._card, "reached": most}
            most = most + GROWN.value(counted=1, **size)
        self.high = np.maximum(self.high, self._spread(most))
        sizes = {
            "device": reserved + outside,
            "needed": own,
            "own": own + outside,
            "allocated": peak["allocated"],
            "requested": peak["requested"],
            "reserved": reserved,
        }
        figures = {name: self._spread(size) for name, size in sizes.items()}
        figures["number"] = np.full(self._size, number, dtype=np.int8)
        self._highest = _better(self._highest, figures, "device", "allocated")
        if rank == "trainer":
            self._maker = _better(self._maker, figures, "needed")
        return figures["device"]

    def _spread(self, size: Num) -> Array:
        return self._grid.spread(size, np.int64)

    def found(self) -> dict[str, Array]:
        """The figures of the worst phase, and its number."""
        return _better(self._highest, self._maker, "own", "allocated")


def _better(one: dict[str, Array], other: dict[str, Array], *names: str) -> dict[str, Array]:
    """Of two phases the one with more of the first name, and where they tie of the second."""
    if not one or not other:
        return one or other
    more, tied = np.zeros((), bool), np.ones((), bool)
    for name in names:
        more = more | (tied & (other[name] > one[name]))
        tied = tied & (other[name] == one[name])
    return {name: np.where(more, other[name], sizes) for name, sizes in one.items()}


OF_PEAK = ("requested", "allocated", "outside", "kept")
"""Totals of the instant that owns a phase's peak."""


def _at_peak(instant: Instant, sums: Totals) -> dict[str, Num]:
    """What counts of an instant that owns a phase's peak; by how much it may be less and more."""
    doubtful = [
        term for term in instant.everything if term.low is not None and term.category in OUTSIDE
    ]
    return {
        **{name: getattr(sums, name) for name in OF_PEAK},
        "below": total([term.bytes - term.low for term in doubtful]),
        "above": total([term.high - term.bytes for term in doubtful]),
    }


def _peak(plan: Grid, phase: PhasePlan, found: Sequence[Totals]) -> dict[str, Num]:
    """Totals of the instant that owns a phase's peak, plan by plan; the most ever reserved."""
    best = found[0]
    own = _at_peak(phase.instants[0], best)
    for instant, sums in zip(phase.instants[1:], found[1:], strict=True):
        higher = sums.peak > own["requested"] + own["outside"]
        more = _at_peak(instant, sums)
        own = {name: np.where(higher, more[name], value) for name, value in own.items()}
    device = maximum(*(sums.device for sums in found)) if len(found) > 1 else best.device
    return {
        **own,
        "needed": device - own["outside"],
        "host": maximum(*(sums.host for sums in found)) if len(found) > 1 else best.host,
    }


def _own(plans: Sequence[PhasePlan], peaks: Sequence[Mapping[str, Num]]) -> Num:
    pairs = zip(plans, peaks, strict=True)
    return trainers_own((phase.rank, peak["requested"]) for phase, peak in pairs)


def _own_phase(plans: Sequence[PhasePlan], peaks: Sequence[Mapping[str, Num]]) -> Num:
    """The number of the phase that makes the trainer's own peak."""
    trainers = [number for number, phase in enumerate(plans) if phase.rank == "trainer"]
    which: Num = trainers[0]
    most = peaks[which]["requested"]
    for number in trainers[1:]:
        size = peaks[number]["requested"]
        which, most = where(size > most, number, which), maximum(most, size)
    return which


def _pool(scene: Scene) -> Num:
    held = engine.held(scene, "rollout")
    return total([term.bytes for term in held if term.category == "engine" and not term.host])


def _blocked(scene: Scene, peaks: Sequence[Mapping[str, Num]]) -> Num:
    blocked: Num = np.asarray(engine.shortfall_bytes(scene)) > 0
    limit = scene.plan.host_ram_per_node
    if limit:
        blocked = blocked | (np.asarray(maximum(*(peak["host"] for peak in peaks))) > limit)
    return blocked


class _Times(NamedTuple):
    """Seconds of a step and of its updates, and what they get done; NaN when unknown."""

    step: Num
    updates: Num
    done: Done


def _times(scene: Scene, plans: Sequence[PhasePlan]) -> _Times:
    done = done_of(scene, plans)
    phases = [
        spent(phase.name, phase.rank, phase_terms(scene, phase))
        for phase in plans
        if phase.per_step
    ]
    step = step_seconds(scene.plan.rollout_overlap, phases)
    updates = [one.seconds for one in phases if one.name in done.updates]
    known = [seconds for seconds in updates if seconds is not None]
    return _Times(
        UNKNOWN if step is None else step,
        sum(known) if known and len(known) == len(updates) else UNKNOWN,
        done,
    )


def _money(grid: Grid, scene: Scene, times: _Times, out: Array) -> dict[str, Array]:
    """What steps and runs take and yield; no hours and no dollars of those that are ``out``."""
    plan, doubt, done = scene.plan, doubt_of(scene), times.done
    peak, price = scene.facts.gpu.flops_per_second(plan.dtype), price_of(plan).per_gpu_hour
    passes = pass_seconds(scene) or (UNKNOWN, UNKNOWN)
    hours = np.where(out, UNKNOWN, grid.spread(gpu_hours(plan, times.step, *passes)[1], np.float64))
    seconds = grid.spread(times.step, np.float64)
    usd = hours * (UNKNOWN if price is None else price)
    mfu: Num = UNKNOWN
    if peak is not None:
        mfu = MODEL_FLOPS_UTILIZATION(
            model_flops=done.model_flops, update_seconds=times.updates, peak_flops_per_second=peak
        )
    rate = TOKENS_PER_SECOND(tokens=done.tokens, step_seconds=times.step, gpus=plan.gpus)
    return {
        "step_seconds": seconds,
        "low_step_seconds": seconds * doubt.low,
        "high_step_seconds": seconds * doubt.high,
        "tokens_per_second_per_gpu": grid.spread(rate, np.float64),
        "mfu": grid.spread(mfu, np.float64),
        "gpu_hours_run": hours,
        "usd_run": usd,
        "low_usd_run": usd * doubt.low,
        "high_usd_run": usd * doubt.high,
    }
