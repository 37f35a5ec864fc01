"""The commands that time kernels and launches of training, dry, and what their files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from accuracy import cards, kernel_report, kernel_runs, launch_runs, programs, trials
from planner import catalog
from planner.benchmark.run.clock import WallClock
from planner.kernels import products_seconds
from planner.trial.ask.result import Device

SMALL = kernel_runs.Sizes(
    widths=((64, 128),),
    tokens=(16, 32),
    lanes=32 * 64,
    head_dims=(32,),
    lengths=(64,),
    prefixes=(0, 32),
    chunks=(16,),
    experts=((64, 32, 4, 2),),
)


def test_every_kernel_is_timed_and_one_that_a_device_refuses_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_runs, "CASE_SECONDS", 0.0)
    rows = list(kernel_runs.measured(kernel_runs.cases(SMALL, "cpu"), WallClock()))
    timed = {(row["part"], row["name"]) for row in rows if row.get("seconds", 0) > 0}
    both = {("attention", "flash forward"), ("attention", "flash backward")}
    passes = {("experts", "forward"), ("experts", "backward"), ("prefix", "forward")}
    names = ("forward", "input gradient", "weight gradient")
    assert timed >= both | passes | {("products", name) for name in names}
    refused = [row for row in rows if "refused" in row]
    assert {row["name"].split()[0] for row in refused} == {"cudnn", "masked"}
    assert all(row["refused"] and "seconds" not in row for row in refused)


@pytest.mark.parametrize("name", ["forward", "input gradient", "weight gradient"])
def test_a_product_is_the_one_that_a_linear_layer_runs(name: str) -> None:
    """Of the shapes that autograd gives a layer's own passes."""
    tokens, inner, outer = 16, 64, 128
    found: Any = kernel_runs._product(name, tokens, inner, outer, "cpu")()
    layer = torch.nn.Linear(inner, outer, bias=False)
    given = torch.randn(tokens, inner, requires_grad=True)
    out = layer(given)
    out.sum().backward()
    assert given.grad is not None and layer.weight.grad is not None
    real = {"forward": out, "input gradient": given.grad, "weight gradient": layer.weight.grad}
    assert found.shape == real[name].shape


def test_tokens_fall_on_experts_by_a_power_law_and_none_is_lost() -> None:
    found = kernel_runs.loads(4096, 64)
    assert sum(found) == 4096 and found == sorted(found, reverse=True)
    assert found[0] / found[9] == pytest.approx(10**kernel_runs.POWER, rel=0.1)


def test_a_chunk_attends_to_its_prefix_and_to_what_comes_before_each_token() -> None:
    torch.manual_seed(0)
    out: Any = kernel_runs._chunk(4, 12, 2, 16, "cpu")()
    torch.manual_seed(0)
    made = torch.randn
    queries = made(1, 2, 4, 16, dtype=torch.bfloat16).float()
    keys, values = (made(1, 2, 16, 16, dtype=torch.bfloat16).float() for _ in range(2))
    scores = queries @ keys.transpose(-1, -2) / 4
    seen = torch.ones(4, 16, dtype=torch.bool).tril(12)
    whole = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ values
    assert torch.allclose(out.float(), whole, atol=0.03)


def test_launches_of_every_switch_are_timed_or_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_runs, "DEPTHS", (2,))
    monkeypatch.setattr(launch_runs, "TIMES", 1)
    monkeypatch.setattr(launch_runs, "WARM_UP", 1)
    monkeypatch.setattr(launch_runs, "FAMILIES", ("qwen2",))
    rows = list(launch_runs.rows("cpu"))
    assert [tuple(row["switches"]) for row in rows] == list(launch_runs.SWITCHES)
    for row in rows:
        if row["switches"] == ["liger"]:
            assert "refused" in row  # no such package, or no card
        else:
            assert min(row["seconds"].values()) > 0, row
            assert set(row["seconds"]) == {"scored", "forward", "backward", "update"}


def test_another_card_than_the_one_that_is_named_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = Device(kind="cuda", name="NVIDIA H200", gpu="h200-141gb", total_bytes=150 * 10**9)
    monkeypatch.setattr(cards, "device_of", lambda device, cap: there)
    cards.check_card("h200-141gb", "cuda:0")
    cards.check_card("h100-80gb", "cpu")
    out = ["--gpu", "h100-80gb", "--out", str(tmp_path / "out.json")]
    for command in (trials.main, programs.main, kernel_runs.main):
        with pytest.raises(ValueError, match="gpu is h100-80gb, and cuda:0 is an NVIDIA H200"):
            command(out)
    assert not list(tmp_path.iterdir())


def test_the_report_sets_what_was_taken_beside_the_table(tmp_path: Path) -> None:
    gpu, shape = catalog.gpu("h100-80gb"), {"tokens": 2048, "inner": 3584, "outer": 18_944}
    table = products_seconds(gpu, rows=2048, inner=3584, outer=18_944, dtype="bf16")
    back = products_seconds(gpu, rows=18_944, inner=2048, outer=3584, dtype="bf16")
    assert table is not None and back is not None
    took = {"forward": 2 * table, "weight gradient": 4 * back}
    rows = [
        {"part": "products", "name": name, "sizes": shape, "flops": 1.0, "seconds": float(seconds)}
        for name, seconds in took.items()
    ]
    environment = {"versions": {"torch": "9.9"}, "driver": "1"}
    sustained = {"shape": [1000, 1000, 500], "seconds": [0.002] * 10 + [0.004] * 10}
    file = {"gpu": "h100-80gb", "environment": environment, "sustained": sustained, "rows": rows}
    (tmp_path / "kernels-x.json").write_text(json.dumps(file))
    page = kernel_report.text(tmp_path)
    quotient = f"{4 * float(back) / (2 * float(table)):.2f}"
    assert "| forward | 1 | -50.0 % | -50.0 % | -50.0 % | 1.00 | 1.00 | 1.00 |" in page
    assert f"| weight gradient | 1 | -75.0 % | -75.0 % | -75.0 % | {quotient} |" in page
