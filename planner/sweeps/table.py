"""Plan + axes → one tidy row per plan, through the very formulas of an estimate.

Fields of :data:`planner.setup.quantities.VECTOR_FIELDS` are swept as arrays, others (model, card,
switches) plan by plan. pandas is imported here only, when a sweep is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from planner.plan import FIELDS, Plan
from planner.plan.facts import obstacle
from planner.plan.fieldtext import KINDS
from planner.plan.plan import remedy
from planner.setup.quantities import VECTOR_FIELDS
from planner.speeds import Speeds
from planner.sweeps.combinations import Combinations
from planner.sweeps.grid import FOLLOWERS, TYPES, Mesh, followed
from planner.sweeps.judged import PASS, Judged, Words, judged
from planner.sweeps.stack import Array

if TYPE_CHECKING:
    import pandas as pd

LIMIT = 20_000_000
"""Most plans of one sweep; more would not fit into memory as a table."""


def sweep(
    plan: Plan,
    over: Mapping[str, Sequence[Any]],
    speeds: Speeds | None = None,
    phase_seconds: bool = False,
) -> pd.DataFrame:
    """One row per combination of the values in ``over``, in the order given.

    Columns: the swept fields, ``valid`` (False: that combination is no plan, its
    numbers are missing), ``requested_bytes``, ``reserved_bytes``, ``device_bytes``,
    ``trainer_bytes`` (:func:`planner.footprint.trainers_own`), ``engine_bytes`` (the most that an
    engine holds of the trainer's card), ``host_bytes``, ``budget_bytes``, ``verdict``,
    ``worst_phase``, ``trainer_phase`` (of the trainer's own peak), ``step_seconds``,
    ``between_seconds`` (of the run, before and between its steps), ``tokens_per_second_per_gpu``,
    ``mfu`` and ``hfu`` (of the update), ``gpu_hours_per_step``, ``usd_per_step``,
    ``gpu_hours_run`` and ``usd_run`` (NaN when unknown; no hours and no dollars of a plan that does
    not run), and ``phase: <name>`` with each phase's device bytes. Seconds and what a run takes
    have their interval's ends beside them, under the same name behind ``low_`` and ``high_``.

    ``speeds`` are a benchmark's shares of the card's peaks; rows with another card have those of
    the catalog. ``phase_seconds`` adds ``seconds: <name>`` with each phase's seconds in a step, or
    of one occasion, and the ends of every other figure that comes of seconds; they are left out
    otherwise, since a column takes its time.

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
    changes = [dict(zip(others, each, strict=True)) for each in product(*others.values())]
    every = {**others, **arrays}
    size, start = prod(map(len, every.values())), 0
    found: list[tuple[Array, Columns]] = []
    for piece in _pieces(arrays, len(changes)):
        each = Mesh(piece).rows
        for numbers, columns in rows(plan, changes, piece, speeds, phase_seconds):
            places = np.add.outer(start + each * np.asarray(numbers), np.arange(each))
            found.append((places.ravel(), _said(columns)))
        start += each * len(changes)
    table = _together(found, size)
    axes = np.meshgrid(*(_values(*axis) for axis in every.items()), indexing="ij")
    swept = dict(zip(every, map(np.ravel, axes), strict=True))
    if not table["valid"].all():
        figures = table.columns.drop("valid")
        table[figures] = table[figures].where(table["valid"])
    return pd.concat([pd.DataFrame({field: swept[field] for field in over}), table], axis=1)


def rows(
    plan: Plan,
    combinations: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, Sequence[Any]],
    speeds: Speeds | None = None,
    phase_seconds: bool = False,
) -> Iterator[Judged]:
    """The columns of every plan of all combinations of choices, of some combinations at a time.

    Args:
        plan: gives every field that is not changed.
        combinations: changes of fields that are not arrays, one mapping a combination.
        arrays: fields of :data:`VECTOR_FIELDS` and their values: each combination is judged at
            every combination of these.
        speeds: a benchmark's shares of its card's peaks.
        phase_seconds: whether each phase's seconds are columns.

    Combinations that are no plans, whatever their sizes, are left out. Columns are arrays, or
    :class:`planner.sweeps.judged.Words`, with a row a combination and a column a plan of the mesh
    (the last array fastest).

    Raises:
        ValueError: naming a field that cannot have a value, or that cannot be an array.
    """
    for field, values in arrays.items():
        checked(field, values)
    mesh = Mesh(arrays)
    varying = {field for changes in combinations for field in changes}
    varying |= {follower for follower, leader in FOLLOWERS.items() if leader in varying}
    known: dict[tuple[str, Any], Any] = {}
    found = []
    for changes in combinations:
        for field, value in changes.items():
            if (field, value) not in known:
                [known[field, value]] = checked(field, [value])
        exact = {field: known[field, value] for field, value in changes.items()}
        found.append(plan.model_copy(update=followed(plan, exact)))
    combined = Combinations(mesh, varying, speeds).judged_by(found)
    yield from judged(combined, mesh, phase_seconds)


@cache
def _kind(field: str) -> TypeAdapter[Any]:
    info = Plan.model_fields[field]
    return TypeAdapter(Annotated[info.annotation, info])  # type: ignore[arg-type]


def checked(field: str, values: Sequence[Any]) -> list[Any]:
    """The values as the field has them.

    Raises:
        ValueError: naming the field, the value and what it can be.
    """
    found = []
    for value in values:
        try:
            found.append(_kind(field).validate_python(value))
        except ValidationError as error:
            [problem, *_] = error.errors(include_url=False)
            raise ValueError(f"{field}: {value!r}: {problem['msg']}. {remedy(field)}") from None
    return found


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


def _pieces(
    arrays: Mapping[str, Sequence[Any]], combinations: int
) -> Iterator[Mapping[str, Sequence[Any]]]:
    """The arrays in the order of their rows, the first of them cut to what one pass judges.

    Combinations of choices are judged together, so many of them share one piece.
    """
    if not arrays or combinations > 1:
        yield arrays
        return
    first = next(iter(arrays))
    others = int(np.prod([len(values) for field, values in arrays.items() if field != first]))
    most = max(PASS // max(others, 1), 1)
    for start in range(0, len(arrays[first]), most):
        yield {**arrays, first: arrays[first][start : start + most]}


Columns = dict[str, Any]


def _values(field: str, values: Sequence[Any]) -> Array:
    return np.asarray(values, dtype=TYPES[KINDS[field]] if field in VECTOR_FIELDS else None)


def _said(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns as people read them: a plan with a part left out is none that fits."""
    found = dict(columns)
    codes, words = found["verdict"]
    part = found.pop("incomplete") & (codes < words.index("out of memory"))
    return {**found, "verdict": Words(np.where(part, words.index("incomplete"), codes), words)}


def _together(found: Sequence[tuple[Array, Columns]], size: int) -> pd.DataFrame:
    """Columns by their places in a table of so many rows; what is missing is NaN, and not valid."""
    import pandas as pd

    words: dict[str, dict[str, None]] = {}
    for name, column in chain.from_iterable(columns.items() for _, columns in found):
        if isinstance(column, Words):
            words.setdefault(name, {}).update(dict.fromkeys(column.words))

    def flat(name: str, column: Any) -> Any:
        if name not in words:
            return column.ravel()
        known = [*words[name]]
        codes = np.asarray([known.index(word) for word in column.words], np.int8)
        return pd.Categorical.from_codes(codes[column.codes.ravel()], pd.Index(known))

    parts = [
        pd.DataFrame({name: flat(name, column) for name, column in columns.items()}, index=places)
        for places, columns in found
    ]
    table = pd.concat(parts) if parts else pd.DataFrame({"valid": np.zeros(0, dtype=bool)})
    if not table.index.equals(pd.RangeIndex(size)):
        table = table.reindex(range(size))
        table["valid"] = table["valid"].eq(True)
    return table
