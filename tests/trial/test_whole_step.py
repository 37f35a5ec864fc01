"""Figures from readings as a card gives them, by hand; and which card a name means."""

from __future__ import annotations

from typing import Any

import pytest

from planner.trial.run.device import device_of, row_of
from planner.trial.run.execution import Readings
from planner.trial.run.meter import RETRIES, USED, PhaseLog, WallClock
from planner.trial.run.prediction import instant
from planner.trial.run.whole_step import censored, figures_of_run, highest, judged
from trial.running import tiny

GIB = 2**30
PLAN = tiny("sft", "llama", prompts_per_step=8)
"""Four micro-batches, of which a trial runs two."""


class Counters(WallClock):
    """A card's counters: each reading is a little higher, and the third has retried once."""

    def __init__(self) -> None:
        self.reads = 0

    def watch(self) -> Any:
        raise AssertionError("not asked here")

    def cap(self, size_bytes: int) -> None:
        raise AssertionError("not asked here")

    def reset(self) -> None:
        pass

    def seconds(self) -> float:
        return 0.5

    def read(self) -> dict[str, int]:
        self.reads += 1
        names = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
        sizes = {name: place * GIB + self.reads for place, name in enumerate(names, 1)}
        return {
            **sizes,
            "host_bytes": 5 * GIB,
            "outside_bytes": 2 * GIB,
            USED: 6 * GIB + self.reads,
            RETRIES: int(self.reads >= 3),
        }


def readings(steps: int = 2) -> Readings:
    log = PhaseLog(Counters())
    for _ in range(steps):
        log.step()
        for _ in range(2):
            for name in ("policy forward", "policy backward"):
                log.on_phase(name, True)
                log.on_phase(name, False)
    return Readings(steps=log.steps, entries=log.entries, decode=[{}] * steps, plans=[PLAN] * steps)


def test_a_cards_counters_become_figures_of_a_whole_step() -> None:
    figures = figures_of_run(PLAN, readings(), warm_up=1, others_bytes=GIB)
    forward = figures.phases[0]
    # Readings 7 and 9 are the second step's forwards: 6 comes before its first phase.
    assert forward.requested_bytes == GIB + 9
    assert forward.reserved_bytes == 4 * GIB + 9
    assert forward.device_bytes == 4 * GIB + 9 + 2 * GIB - GIB
    assert (forward.device_before_bytes, forward.device_after_bytes) == (6 * GIB + 6, 6 * GIB + 9)
    assert forward.seconds == pytest.approx(0.5 * 4)
    assert forward.first_seconds == pytest.approx(0.5 * 4)
    assert forward.tokens == 8 * 48
    assert forward.allocation_retries == 0 and not censored(figures)


def test_retries_are_those_of_their_phase_and_censor_the_run() -> None:
    figures = figures_of_run(PLAN, readings(1), warm_up=0)
    retries = {phase.name: phase.allocation_retries for phase in figures.phases}
    assert retries == {"policy forward": 0, "policy backward": 1}
    assert censored(figures)


def test_the_verdict_is_of_what_was_measured() -> None:
    figures = figures_of_run(PLAN, readings(), warm_up=1)
    for capacity, word in ((8 * GIB, "fits"), (6 * GIB + 100, "tight"), (5 * GIB, "out of memory")):
        found = judged(figures, capacity, "the card")
        assert found.verdict is not None and found.verdict.word == word
        assert found.worst_phase == "policy backward"
        assert found.budget_bytes == capacity
        assert found.seconds == pytest.approx(4.0)
    assert judged(figures, None, "").verdict is None


def test_of_several_ranks_the_highest_counts() -> None:
    one = figures_of_run(PLAN, readings(), warm_up=1)
    other = one.model_copy(
        update={
            "phases": tuple(
                phase.model_copy(update={"reserved_bytes": 9 * GIB, "seconds": 0.25})
                for phase in one.phases
            )
        }
    )
    found = highest([one, other]).phases[0]
    assert found.reserved_bytes == 9 * GIB and found.seconds == pytest.approx(2.0)
    assert found.tokens_per_second == pytest.approx(8 * 48 / 2.0)


@pytest.mark.parametrize(
    ("name", "capability", "total_bytes", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0", 84_943_715_696, "h100-80gb"),
        ("NVIDIA H100 PCIe", "9.0", 84_943_715_696, "h100-80gb-pcie"),
        ("NVIDIA H200", "9.0", 150_109_106_995, "h200-141gb"),
        ("NVIDIA A100-SXM4-40GB", "8.0", 42_294_690_447, "a100-40gb"),
        ("NVIDIA A100-PCIE-40GB", "8.0", 42_294_690_447, "a100-40gb-pcie"),
        ("NVIDIA GeForce RTX 4090", "8.9", 25_254_407_700, "rtx-4090"),
        ("NVIDIA GeForce RTX 3090", "8.6", 25_436_943_810, "rtx-3090"),
        ("NVIDIA L4", "8.9", 23_654_532_382, "l4"),
        ("NVIDIA A10G", "8.6", 23_686_744_637, "a10g"),
        ("NVIDIA GeForce RTX 4070", "8.9", 12_500_000_000, None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "9.0", 10_000_000_000, None),
    ],
)
def test_a_cards_name_finds_its_row(
    name: str, capability: str, total_bytes: int, key: str | None
) -> None:
    row = row_of(name, capability, total_bytes)
    assert (row.key if row else None) == key


def test_a_device_that_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match="no cuda:97 here"):
        device_of("cuda:97", None)


def test_instants_have_one_name_at_every_depth() -> None:
    assert instant("mm", "layers.1.mlp.up_proj", 8) == instant("mm", "layers.1.mlp.up_proj", 28)
    assert instant("mm", "layers.7.mlp", 8) == instant("mm", "layers.27.mlp", 28)
    assert instant("mm", "layers.0.mlp", 8) != instant("mm", "layers.7.mlp", 8)
    assert instant("mm", "layers.1.experts.3.up", 8) != instant("mm", "layers.1.experts.4.up", 8)
    assert instant("mm", "", 8) == "mm in "
