"""Plan + axes → one tidy row per plan, through the very formulas of an estimate.

Fields of :data:`planner.quantities.VECTOR_FIELDS` are swept as arrays, others (model, card,
switches) plan by plan. pandas is imported here only, when a sweep is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.grid import Grid, followed
from planner.grid_estimate import Array, Words, judge
from planner.plan import FIELDS, Plan, try_plan
from planner.quantities import VECTOR_FIELDS
from planner.speeds import Speeds, obstacle

if TYPE_CHECKING:
    import pandas as pd

LIMIT = 20_000_000
"""Most plans of one sweep; more would not fit into memory as a table."""

PASS = 50_000
"""Plans that are judged in one pass: arrays of more have to be got from the system each time."""


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
    if not any(isinstance(values, Words) for values in found):
        # Plain values are repeated in one go, so that texts stay texts.
        if not any(isinstance(values, np.ndarray) for values in found):
            return np.repeat(np.asarray(found), [part.rows for part in parts])
        return _joined(
            values if isinstance(values, np.ndarray) else np.full(part.rows, values)
            for values, part in zip(found, parts, strict=True)
        )
    words = pd.Index(list(dict.fromkeys(chain(*(v.words for v in found if type(v) is Words)))))
    codes = _joined(
        words.get_indexer(pd.Index(list(values.words))).astype(np.int8)[values.codes]
        if isinstance(values, Words)
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
