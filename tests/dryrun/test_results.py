"""A remembered result is what the operator itself would return."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from planner.dryrun.run import results
from planner.dryrun.run.results import REMEMBERED, VIEWS, result_of

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def turned() -> torch.Tensor:
    return meta(2, 5, 3, 4).transpose(1, 2)


FLOATS = torch.float32
MEAN = (meta(2, 3, 1, dtype=FLOATS), meta(2, 3, 1, dtype=FLOATS))
ASKED: list[tuple[Any, tuple[Any, ...]]] = [
    (aten._log_softmax.default, (turned(), -1, False)),
    (aten._softmax.default, (turned(), -1, False)),
    (aten._softmax_backward_data.default, (meta(4, 5), meta(4, 5), 1, torch.bfloat16)),
    (aten._to_copy.default, (turned(),)),
    (aten.add.Tensor, (meta(4, 5), meta(5))),
    (aten.addmm.default, (meta(6), meta(4, 5), meta(5, 6))),
    (aten.all.default, (meta(4, 5, dtype=torch.bool),)),
    (aten.bmm.default, (meta(2, 3, 4), meta(2, 4, 5))),
    (aten.cat.default, ([meta(2, 3), meta(2, 4)], 1)),
    (aten.clone.default, (turned(),)),
    (aten.cumsum.default, (meta(4, 5), 1)),
    (aten.div.Scalar, (turned(), 2.0)),
    (aten.div.Tensor, (meta(4, 5), meta(4, 5, dtype=torch.float32))),
    (aten.floor_divide.default, (meta(4, 5, dtype=torch.int64), 2)),
    (aten.gelu.default, (turned(),)),
    (aten.gelu_backward.default, (meta(4, 5), turned().reshape(6, 20)[:4, :5])),
    (aten.le.Tensor, (meta(4, 5), meta(4, 1))),
    (aten.mean.dim, (meta(4, 5, dtype=torch.float32), [-1], True)),
    (aten.mm.default, (meta(4, 5), meta(6, 5).t())),
    (aten.mul.Scalar, (meta(4, 5), 3)),
    (aten.mul.Tensor, (turned(), meta(1, 3, 5, 4))),
    (aten.native_layer_norm.default, (meta(2, 3, 4), [4], meta(4), meta(4), 1e-5)),
    (
        aten.native_layer_norm_backward.default,
        (meta(2, 3, 4), meta(2, 3, 4), [4], *MEAN, meta(4), meta(4), [True, True, True]),
    ),
    (aten.neg.default, (turned()[..., :2],)),
    (aten.pow.Tensor_Scalar, (meta(4, 5), 2)),
    (aten.rsqrt.default, (meta(4, 1, dtype=torch.float32),)),
    (aten.sigmoid.default, (turned(),)),
    (aten.sigmoid_backward.default, (meta(4, 5), turned().reshape(6, 20)[:4, :5])),
    (aten.silu.default, (meta(4, 5),)),
    (aten.silu_backward.default, (meta(4, 5), meta(5, 4).t())),
    (aten.slice_backward.default, (meta(4, 2), [4, 5], 1, 0, 2, 1)),
    (aten.softplus.default, (meta(4, 5, dtype=FLOATS),)),
    (aten.softplus_backward.default, (meta(4, 5), meta(4, 5), 1, 20)),
    (aten.sub.Tensor, (meta(4, 5), meta(4, 1))),
    (aten.sum.dim_IntList, (turned(), [0], True)),
    (aten.tanh.default, (meta(4, 5),)),
    (aten.where.self, (meta(4, 5, dtype=torch.bool), meta(4, 5), meta(4, 1))),
    (aten.zeros_like.default, (turned(),)),
]
SEEN: list[tuple[Any, tuple[Any, ...]]] = [
    (aten._unsafe_view.default, (meta(4, 5), [20])),
    (aten.alias.default, (turned(),)),
    (aten.as_strided.default, (meta(4, 5), [2, 2], [5, 1], 3)),
    (aten.detach.default, (turned()[..., :2],)),
    (aten.expand.default, (meta(4, 1), [4, 5])),
    (aten.permute.default, (turned(), [3, 0, 1, 2])),
    (aten.select.int, (turned(), 1, 2)),
    (aten.slice.Tensor, (turned(), 2, 1, 4, 2)),
    (aten.squeeze.dim, (meta(4, 1, 5), 1)),
    (aten.t.default, (meta(4, 5),)),
    (aten.transpose.int, (turned(), 0, -1)),
    (aten.unsqueeze.default, (meta(4, 5), -1)),
    (aten.view.default, (meta(4, 6)[1:], [-1, 2, 3])),
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
    found = [result_of(func, args, {}) for _ in range(2)]
    several = isinstance(found[0], tuple)
    first, later, real = (one if several else (one,) for one in (*found, func(*args)))
    assert [told(one) for one in first] == [told(one) for one in later]
    assert [told(one) for one in first] == [told(one) for one in real]
    given = [one for one in args if isinstance(one, torch.Tensor)]
    made = [one.untyped_storage()._cdata for one in (*first, *later, *given)]
    assert len({*made}) == len(made)


def test_arguments_that_look_alike_are_told_apart() -> None:
    whole = meta(4, 5, dtype=torch.int64)
    assert result_of(aten.mul.Tensor, (whole, 2), {}).dtype == torch.int64
    assert result_of(aten.mul.Tensor, (whole, 2.0), {}).dtype == torch.float32
    assert result_of(aten.mul.Tensor, (whole, True), {}).dtype == torch.int64
    assert result_of(aten.neg.default, (meta(4, 5),), {}).stride() == (5, 1)
    assert result_of(aten.neg.default, (meta(5, 4).t(),), {}).stride() == (1, 4)


def test_every_view_is_tried() -> None:
    assert {func for func, _ in SEEN} == VIEWS


@pytest.mark.parametrize(("func", "args"), SEEN, ids=lambda value: str(value)[:40])
def test_views_of_fakes_are_in_their_storage(func: Any, args: Any) -> None:
    for _ in range(2):
        with FakeTensorMode() as mode, _Asked() as asked:
            base, *rest = tree_map_only(torch.Tensor, _fake, args)
            real = func(base, *rest)
            for found in [asked.of(func, (base, *rest)) for _ in range(2)]:
                assert told(found) == told(real)
                assert found.untyped_storage()._cdata == base.untyped_storage()._cdata
                assert type(found) is FakeTensor and found.fake_mode is mode
                assert found.fake_device == base.fake_device


def test_a_views_place_follows_its_bases() -> None:
    with FakeTensorMode():
        whole = torch.empty(4, 6)
        for start in (0, 1, 0):
            found = result_of(aten.t.default, (whole[start : start + 2],), {})
            assert found.storage_offset() == 6 * start
    # No number is kept: another tensor of that place has a memory of its own.
    with FakeTensorMode():
        other = torch.empty(4, 6, dtype=torch.bfloat16)
        found = result_of(aten.t.default, (other[1:3],), {})
        assert found.dtype == torch.bfloat16
        assert found.untyped_storage()._cdata == other.untyped_storage()._cdata


def test_tensors_with_data_are_computed() -> None:
    for value in (1.0, 2.0):
        found = result_of(aten.add.Tensor, (torch.ones(2), torch.full((2,), value)), {})
        assert found.tolist() == [1 + value] * 2


def test_a_named_argument_counts_too() -> None:
    whole = meta(4, 5)
    for _ in range(2):
        assert result_of(aten.gelu.default, (whole,), {"approximate": "tanh"}).shape == (4, 5)
        assert result_of(aten.cumsum.default, (whole, 1), {}).dtype == torch.bfloat16
        assert result_of(aten.cumsum.default, (whole, 1), {"dtype": FLOATS}).dtype == FLOATS


def test_what_is_kept_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "KEPT", 3)
    monkeypatch.setattr(results, "_known", {})
    for size in range(1, 9):
        assert result_of(aten.neg.default, (meta(size),), {}).shape == (size,)
        assert 1 <= len(results._known) <= 3


@pytest.mark.parametrize(("func", "args"), ASKED, ids=lambda value: str(value)[:40])
def test_results_of_fakes_are_fakes_of_their_device(func: Any, args: Any) -> None:
    made: list[Any] = []
    for _ in range(2):  # what one mode was given, another one may ask for
        with FakeTensorMode() as mode, _Asked() as asked:
            fakes = tree_map_only(torch.Tensor, _fake, args)
            made += [asked.of(func, fakes) for _ in range(2)]
            real = func(*fakes)
            last = [one for one in tree_leaves(made[-1]) if isinstance(one, torch.Tensor)]
            assert {type(one) for one in last} == {FakeTensor}
            assert {one.fake_mode for one in last} == {mode}
            assert [told(one) for one in last] == [told(one) for one in tree_leaves(real)]
    shapes = [[told(one) for one in tree_leaves(one)] for one in made]
    assert all(one == shapes[0] for one in shapes)
    assert {one[3] for one in shapes[0]} == {torch.device("cpu")}


def _fake(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


class _Asked(TorchDispatchMode):
    """Asks for results where a tracker does: inside its own dispatch, over the fakes' mode."""

    def of(self, func: Any, args: Any) -> Any:
        return func(*args)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return result_of(func, args, kwargs or {})
