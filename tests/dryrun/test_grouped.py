"""Grouped products of experts: without data as with data, in every format a card takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import planner.dryrun.run.execute
from dry_peaks import meets_dry_run
from planner.background import Refused
from planner.dryrun.run import worker
from planner.dryrun.run.branches import CardTraits, gpu_branches
from planner.plan import Plan

torch.set_num_threads(1)

HOPPER = CardTraits(compute_capability="9.0", cudnn_version=92000)
CUBLAS_BYTES = 64 * 2**20
FORMATS = [torch.float32, torch.float16, torch.bfloat16]


def sizes(device: str, dtype: torch.dtype) -> list[tuple[Any, ...]]:
    rows = torch.zeros(24, 16, dtype=dtype, device=device, requires_grad=True)
    weight = torch.zeros(4, 32, 16, dtype=dtype, device=device, requires_grad=True)
    ends = torch.tensor([6, 12, 18, 24], dtype=torch.int32).to(device)
    output = torch.nn.functional.grouped_mm(rows, weight.transpose(-2, -1), offs=ends)
    found = torch.autograd.grad(output, (rows, weight), torch.zeros_like(output))
    return [(tuple(item.shape), item.stride(), item.dtype) for item in (output, *found)]


@pytest.mark.parametrize("dtype", FORMATS)
def test_sizes_are_those_of_a_product_with_data(dtype: torch.dtype) -> None:
    with gpu_branches(card=HOPPER, batch_shape="full", attention="sdpa"):
        assert sizes("meta", dtype) == sizes("cpu", dtype)


def test_formats_that_differ_are_still_refused() -> None:
    rows = torch.zeros(8, 16, device="meta")
    weight = torch.zeros(2, 16, 16, dtype=torch.float16, device="meta")
    ends = torch.zeros(2, dtype=torch.int32, device="meta")
    with (
        gpu_branches(card=HOPPER, batch_shape="full", attention="sdpa"),
        pytest.raises(RuntimeError, match="mat_b.dtype"),
    ):
        torch.nn.functional.grouped_mm(rows, weight, offs=ends)


@pytest.mark.parametrize("master", ["none", "fp32"], ids=["fp32", "autocast"])
def test_experts_in_fp32_have_a_dry_run(master: str) -> None:
    plan = Plan(
        model="Qwen/Qwen3-30B-A3B",
        method="sft",
        gpu="b200-180gb",
        gpus=1,
        sharding="none",
        dtype="fp32" if master == "none" else "bf16",
        master_dtype=master,
        micro_batch_size=2,
        prompt_tokens=256,
        response_tokens=256,
    )
    meets_dry_run(plan)


def test_an_error_of_torch_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("\nExpected inputs of BF16 type.\nException raised from here\n#0 there")

    monkeypatch.setattr(planner.dryrun.run.execute, "dry_run", refuses)
    with pytest.raises(Refused) as said:
        worker.execute({"plan": Plan(model="Qwen/Qwen3-0.6B").model_dump()})
    assert str(said.value) == (
        "torch cannot run this step on fake tensors: Expected inputs of BF16 type. The estimate "
        "does not depend on the dry run."
    )
