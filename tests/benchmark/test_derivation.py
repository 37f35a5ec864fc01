"""Efficiencies from rows, beside arithmetic done by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.benchmark.ask.derivation import derive
from planner.catalog.card_benchmark import Derived, Measured, Peaks

MODEL = "Qwen/Qwen2.5-7B"  # 28 layers
PEAKS = Peaks(
    bf16_flops_per_second=1e15,
    fp32_flops_per_second=None,
    bandwidth_bytes_per_second=1e12,
    slot_bytes_per_second=50e9,
)


def row(part: str, name: str, seconds: float, **more: Any) -> Measured:
    base = {
        "part": part,
        "name": name,
        "sizes": {},
        "seconds": seconds,
        "low_seconds": seconds,
        "high_seconds": seconds,
        "samples": 3,
    }
    return Measured.model_validate({**base, **more})


def found(*rows: Measured, peaks: Peaks = PEAKS) -> dict[str, Derived]:
    derived, notes = derive(rows, peaks)
    keys = {one.key for one in derived}
    assert len(keys) + len(notes) == 6, "what is not derived is said"
    return {one.key: one for one in derived}


def test_a_share_is_that_of_all_layers_and_the_head_led_to_the_rows_tokens() -> None:
    rows = (
        row("layers", "layers training", 0.010, model=MODEL, flops=4e12,
            sizes={"tokens": 8000, "layers": 2}),
        row("layers", "layers training", 0.004, model=MODEL, flops=1e12,
            sizes={"tokens": 2000, "layers": 2}),
        row("layers", "head training", 0.005, model=MODEL, flops=1e12, sizes={"tokens": 2000}),
        row("layers", "head forward", 0.002, model=MODEL, flops=0.3e12, sizes={"tokens": 2000}),
    )  # fmt: skip
    one = found(*rows)["training-compute"]
    # 14 stacks of two layers and 4 heads' worth: (56 + 4) TFLOP in 0.140 + 0.020 s of 1 PFLOP/s.
    long = 60e12 / 0.160 / 1e15
    # 14 stacks and one head: 15 TFLOP in 0.056 + 0.005 s.
    short = 15e12 / 0.061 / 1e15
    assert (one.low, one.high) == pytest.approx((short, long))
    assert one.typical == pytest.approx((short + long) / 2)
    assert "Qwen2.5-7B at 8000" in one.rests_on


def test_the_median_of_three_shapes_is_the_middle_one() -> None:
    stacks = [
        row("layers", "layers forward", seconds, model=MODEL, flops=1e12,
            sizes={"tokens": tokens, "layers": 28})
        for tokens, seconds in ((1000, 0.002), (2000, 0.004), (4000, 0.001))
    ]  # fmt: skip
    head = row("layers", "head forward", 1e-9, model=MODEL, flops=1.0, sizes={"tokens": 1000})
    one = found(*stacks, head)["forward-compute"]
    assert (one.low, one.typical, one.high) == pytest.approx((0.25, 0.5, 1.0), rel=1e-5)


def test_layers_without_their_head_tell_nothing() -> None:
    alone = row("layers", "layers training", 0.01, model=MODEL, flops=1e12,
                sizes={"tokens": 8, "layers": 2})  # fmt: skip
    other = row("layers", "head training", 0.01, model="Qwen/Qwen2.5-1.5B", flops=1e12,
                sizes={"tokens": 8})  # fmt: skip
    assert "training-compute" not in found(alone, other)


def test_decoding_is_all_bytes_over_all_seconds() -> None:
    rows = (
        row("decode", "weights", 0.001, moved_bytes=800_000_000),
        row("decode", "weights", 0.002, moved_bytes=800_000_000),
        row("decode", "keys and values", 0.001, moved_bytes=200_000_000),
    )
    one = found(*rows)["decode-bandwidth"]
    assert (one.low, one.typical, one.high) == pytest.approx((0.2, 1.8e9 / 0.004 / 1e12, 0.8))


def test_the_optimizer_is_the_fused_update_and_its_ends_all_three() -> None:
    rows = (
        row("bandwidth", "copy", 0.001, moved_bytes=850_000_000),
        row("bandwidth", "adamw-fused", 0.001, moved_bytes=700_000_000),
        row("bandwidth", "adamw-foreach", 0.002, moved_bytes=700_000_000),
    )
    one = found(*rows)["optimizer-bandwidth"]
    assert (one.low, one.typical, one.high) == pytest.approx((0.35, 0.7, 0.85))
    assert "optimizer-bandwidth" not in found(rows[0], rows[2])


def test_only_pinned_copies_count() -> None:
    rows = (
        row("host copy", "pinned to device", 0.001, moved_bytes=40_000_000),
        row("host copy", "pinned to host", 0.002, moved_bytes=40_000_000),
        row("host copy", "pageable to host", 0.040, moved_bytes=40_000_000),
    )
    one = found(*rows)["host-copy-bandwidth"]
    assert (one.low, one.typical, one.high) == pytest.approx((0.4, 80e6 / 0.003 / 50e9, 0.8))


def test_a_token_is_the_difference_of_two_generations() -> None:
    rows = (
        row("launches", "generate", 0.10, sizes={"layers": 28, "tokens": 4}),
        row("launches", "generate", 0.52, low_seconds=0.5, high_seconds=0.6,
            sizes={"layers": 28, "tokens": 20}),
    )  # fmt: skip
    one = found(*rows)["hf-step-seconds-per-layer"]
    steps = 16 * 28
    wanted = (0.40 / steps, 0.42 / steps, 0.50 / steps)
    assert (one.low, one.typical, one.high) == pytest.approx(wanted, abs=1e-9)


def test_a_value_that_no_such_card_has_is_left_out_and_said() -> None:
    fast = row("decode", "weights", 0.0001, moved_bytes=800_000_000)
    derived, notes = derive([fast], PEAKS)
    assert not derived
    assert any("decode-bandwidth would be 8 to 8" in note for note in notes)


def test_without_a_datasheets_peak_there_is_no_share() -> None:
    unknown = Peaks(
        bf16_flops_per_second=None,
        fp32_flops_per_second=None,
        bandwidth_bytes_per_second=None,
        slot_bytes_per_second=None,
    )
    rows = (
        row("decode", "weights", 0.001, moved_bytes=800_000_000),
        row("bandwidth", "adamw-fused", 0.001, moved_bytes=700_000_000),
        row("layers", "head training", 0.01, model=MODEL, flops=1e12, sizes={"tokens": 8}),
        row("layers", "layers training", 0.01, model=MODEL, flops=1e12,
            sizes={"tokens": 8, "layers": 2}),
    )  # fmt: skip
    assert found(*rows, peaks=unknown) == {}
