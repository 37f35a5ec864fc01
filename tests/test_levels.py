"""From requested to device: the allocator's rules on sizes worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.dryrun.allocator import Allocator
from planner.formulas.allocator import (
    cublas_workspace_bytes,
    held_bytes,
)
from planner.term import Instant, Term
from planner.totals.levels import Adder, MeshAdder
from planner.totals.segments import cached_before, in_process
from planner.units import KIB, MIB
from planner.values.step_phases import LOAD, OPTIMIZER_STEP, POLICY_FORWARD, ROLLOUT


def term(size: int, tensors: int = 1, **more: object) -> Term:
    values: dict[str, object] = {
        "name": "x",
        "role": "policy",
        "category": "buffers",
        "bytes": size,
        "formula": "",
        "inputs": {},
        "source": "",
        "tensors": tensors,
    }
    return Term(**{**values, **more})  # type: ignore[arg-type]


# CUDACachingAllocator.cpp: blocks of 512 bytes; up to 1 MiB from 2 MiB segments, below
# 10 MiB from 20 MiB segments, larger ones rounded to 2 MiB. An end of at most 1 MiB stays whole.
@pytest.mark.parametrize(
    ("size", "tensors", "allocated", "slack"),
    [
        (1, 1, 512, 0),
        (1024, 1, 1024, 0),
        (1025, 2, 2048, 0),
        (MIB, 1, MIB, 0),
        # Six 3 MiB tensors leave 2 of 20 MiB; a sixth of that falls to each.
        (18 * MIB, 6, 18 * MIB, 6 * (2 * MIB * 3 // 20)),
        (10 * MIB, 1, 10 * MIB, 0),
        (11 * MIB, 1, 12 * MIB, 0),
        (11 * MIB - 512, 1, 11 * MIB - 512, MIB + 512),
        (3 * 11 * MIB, 3, 36 * MIB, 0),
        # Two of 9.5 MiB leave 1 of 20, which stays with the second; a share of it falls to each.
        (19 * MIB, 2, 19 * MIB + 2 * (MIB * 19 // 40), 0),
        (0, 1, 0, 0),
    ],
)
def test_rounding_and_segments(size: int, tensors: int, allocated: int, slack: int) -> None:
    found = term(size, tensors)
    assert held_bytes(found, expandable=False) == (allocated, slack)
    whole = tensors * -(-size // tensors // 512) * 512
    assert held_bytes(found, expandable=True) == (whole, 0)
    row = term(np.asarray([size, size]), tensors)  # type: ignore[arg-type]
    assert [list(part) for part in held_bytes(row, expandable=False)] == [
        [allocated, allocated],
        [slack, slack],
    ]


@pytest.mark.parametrize("size", [700, 900_000, 3 * MIB, 5 * MIB, 6_500_000, 9_961_472, 10 * MIB])
def test_many_of_one_size_are_held_as_the_allocator_holds_them(size: int) -> None:
    """As many as fill whole segments, beside the rules themselves, one tensor after the other."""
    per_segment = 20 * MIB // size if size > MIB else 2 * MIB // (-(-size // 512) * 512)
    count = 4 * max(per_segment, 1)
    real = Allocator()
    for key in range(count):
        real.allocate(key, size)
    allocated, slack = held_bytes(term(count * size, count), expandable=False)
    assert allocated == pytest.approx(real.allocated_bytes, rel=4e-3)
    if size > MIB:
        assert allocated + slack == pytest.approx(real.reserved_bytes, rel=0.02)


def test_layout_gives_each_tensor_its_own_size() -> None:
    """One tensor of 11 MiB and two of half a MiB: only the large one's segment is larger."""
    found = term(12 * MIB, layout=((1, 11 / 12), (2, 0.5 / 12)))
    assert held_bytes(found, expandable=False) == (13 * MIB, 0)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("9.0", 32 * MIB),
        ("10.0", 32 * MIB),
        ("12.0", 32 * MIB),
        ("8.0", 8 * MIB + 128 * KIB),
        ("11.0", 8 * MIB + 128 * KIB),
        ("7.5", 8 * MIB + 128 * KIB),
    ],
)
def test_cublas_workspace_by_card(capability: str, expected: int) -> None:
    assert cublas_workspace_bytes(capability) == expected


@pytest.mark.parametrize("adder", [Adder, MeshAdder])
def test_host_and_engine_are_outside_the_allocator(adder: type[Adder]) -> None:
    instant = Instant(
        name="now",
        terms=(term(512), term(512, host=True), term(7 * MIB, category="allocator")),
        shared=((term(1024, category="engine"), term(11 * MIB, category="logits")),),
    )
    sums = adder(expandable_segments=False).totals(instant)
    assert (sums.requested, sums.outside, sums.host) == (11 * MIB + 512, 1024, 512)
    assert (sums.allocated, sums.slack) == (12 * MIB + 512, 7 * MIB)
    assert (sums.buffers, sums.logits, sums.parameters) == (512, 12 * MIB, 0)
    assert sums.device == 19 * MIB + 512 + 1024


def test_a_mesh_is_added_like_its_plans() -> None:
    """Rows along one axis and columns along another, beside a number."""
    rows, columns = np.array([[1], [3 * MIB]]), np.array([[512, 11 * MIB, 700]])

    def instant(row: Any, column: Any) -> Instant:
        shared = (term(row, category="gradients"), term(4096, category="parameters"))
        return Instant("now", (term(column, category="logits"), term(column, host=True)), (shared,))

    mesh = MeshAdder(expandable_segments=False).totals(instant(rows, columns))
    for at in np.ndindex(2, 3):
        alone = Adder(expandable_segments=False).totals(
            instant(int(rows[at[0], 0]), int(columns[0, at[1]]))
        )
        assert tuple(np.broadcast_to(total, (2, 3))[at] for total in mesh) == alone


@pytest.mark.parametrize(
    ("empty_cache", "carried"),
    [
        ("between-phases", [0, 0, 0, 0]),
        ("every-step", [0, 0, 40, 40]),
        ("never", [0, 40, 40, 40]),
    ],
)
def test_what_stays_cached(empty_cache: str, carried: list[int]) -> None:
    phases = [LOAD, ROLLOUT, POLICY_FORWARD, OPTIMIZER_STEP]
    trains = [in_process("trainer", phase) for phase in phases]
    assert cached_before(trains, [99, 40, 30, 20], empty_cache) == carried
