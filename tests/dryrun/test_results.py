"""A remembered result is what the operator itself would return."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from planner.dryrun.run.results import REMEMBERED, Results

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def turned() -> torch.Tensor:
    return meta(2, 5, 3, 4).transpose(1, 2)


ASKED: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.add.Tensor, (meta(4, 5), meta(5))),
    (aten.addmm.default, (meta(6), meta(4, 5), meta(5, 6))),
    (aten.bmm.default, (meta(2, 3, 4), meta(2, 4, 5))),
    (aten.cat.default, ([meta(2, 3), meta(2, 4)], 1)),
    (aten.div.Scalar, (turned(), 2.0)),
    (aten.div.Tensor, (meta(4, 5), meta(4, 5, dtype=torch.float32))),
    (aten.gelu.default, (turned(),)),
    (aten.mean.dim, (meta(4, 5, dtype=torch.float32), [-1], True)),
    (aten.mm.default, (meta(4, 5), meta(6, 5).t())),
    (aten.mul.Scalar, (meta(4, 5), 3)),
    (aten.mul.Tensor, (turned(), meta(1, 3, 5, 4))),
    (aten.neg.default, (turned()[..., :2],)),
    (aten.pow.Tensor_Scalar, (meta(4, 5), 2)),
    (aten.rsqrt.default, (meta(4, 1, dtype=torch.float32),)),
    (aten.sigmoid.default, (turned(),)),
    (aten.silu.default, (meta(4, 5),)),
    (aten.silu_backward.default, (meta(4, 5), meta(5, 4).t())),
    (aten.slice_backward.default, (meta(4, 2), [4, 5], 1, 0, 2, 1)),
    (aten.sub.Tensor, (meta(4, 5), meta(4, 1))),
    (aten.sum.dim_IntList, (turned(), [0], True)),
    (aten.tanh.default, (meta(4, 5),)),
    (aten.where.self, (meta(4, 5, dtype=torch.bool), meta(4, 5), meta(4, 1))),
]


def told(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return (
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.device,
        tensor.storage_offset(),
        storage.nbytes(),
    )


def test_every_remembered_operator_is_tried() -> None:
    assert {func for func, _ in ASKED} == REMEMBERED


@pytest.mark.parametrize(("func", "args"), ASKED, ids=lambda value: str(value)[:40])
def test_first_and_later_results_are_the_operators(func: Any, args: Any) -> None:
    results = Results()
    first, later = results.of(func, args, {}), results.of(func, args, {})
    assert told(first) == told(later) == told(func(*args))
    assert first.untyped_storage()._cdata != later.untyped_storage()._cdata


def test_arguments_that_look_alike_are_told_apart() -> None:
    results = Results()
    whole = meta(4, 5, dtype=torch.int64)
    assert results.of(aten.mul.Tensor, (whole, 2), {}).dtype == torch.int64
    assert results.of(aten.mul.Tensor, (whole, 2.0), {}).dtype == torch.float32
    assert results.of(aten.mul.Tensor, (whole, True), {}).dtype == torch.int64
    assert results.of(aten.neg.default, (meta(4, 5),), {}).stride() == (5, 1)
    assert results.of(aten.neg.default, (meta(5, 4).t(),), {}).stride() == (1, 4)


def test_tensors_with_data_are_computed() -> None:
    results = Results()
    for value in (1.0, 2.0):
        found = results.of(aten.add.Tensor, (torch.ones(2), torch.full((2,), value)), {})
        assert found.tolist() == [1 + value] * 2
