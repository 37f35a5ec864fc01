"""From rows to the efficiencies of ``efficiencies.json`` that one card can tell. No torch.

**training-compute, forward-compute.** For every model and number of tokens that ran: the FLOPs
of all its layers and its head over the seconds that they take, over the dense peak. The layers'
seconds are those of the stack times ``layers / layers of the stack``; the head's are led from its
own tokens to the row's. Typical is the median over these shapes, low and high are its ends.

**decode-bandwidth.** Bytes over seconds of all decoding rows together; the ends are the rows'.

**optimizer-bandwidth.** The fused AdamW; the ends are those of both updates and of a copy.

**host-copy-bandwidth.** Pinned copies there and back together; the ends are the two directions'.

**hf-step-seconds-per-layer.** Seconds of the longer generation less the shorter one's, over the
tokens and layers between them; the ends by the longer one's lowest and highest sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from planner import catalog
from planner.catalog.card_benchmark import Derived, Measured, Peaks
from planner.speeds import BOUNDS, DIGITS, SpeedKey


def derive(rows: Sequence[Measured], peaks: Peaks) -> tuple[tuple[Derived, ...], tuple[str, ...]]:
    """The efficiencies that the rows tell, and a note for each that they do not."""
    found: list[Derived] = []
    notes: list[str] = []
    for key, values, rests_on in _all(rows, peaks):
        if not values:
            notes.append(f"{key} was not measured; the published interval stays.")
            continue
        low, typical, high = (round(value, DIGITS) for value in values)
        lowest, highest = BOUNDS[key]
        if not lowest <= low <= typical <= high <= highest:
            notes.append(
                f"{key} would be {low:.3g} to {high:.3g}, which is none of such a card; the "
                "published interval stays."
            )
            continue
        found.append(Derived(key=key, low=low, typical=typical, high=high, rests_on=rests_on))
    return tuple(found), tuple(notes)


Found = tuple[SpeedKey, tuple[float, float, float] | None, str]


def _all(rows: Sequence[Measured], peaks: Peaks) -> Iterator[Found]:
    peak, bandwidth = peaks.bf16_flops_per_second, peaks.bandwidth_bytes_per_second
    yield _compute("training-compute", "training", rows, peak)
    yield _compute("forward-compute", "forward", rows, peak)
    yield _moved("decode-bandwidth", [row for row in rows if row.part == "decode"], bandwidth)
    yield _optimizer([row for row in rows if row.part == "bandwidth"], bandwidth)
    pinned = [row for row in rows if row.part == "host copy" and row.name.startswith("pinned")]
    yield _moved("host-copy-bandwidth", pinned, peaks.slot_bytes_per_second)
    yield _generated([row for row in rows if row.name == "generate"])


def _compute(key: SpeedKey, how: str, rows: Sequence[Measured], peak: float | None) -> Found:
    heads = {row.model: row for row in rows if row.name == f"head {how}" and row.part == "layers"}
    shares: list[float] = []
    said: list[str] = []
    for row in rows:
        head = heads.get(row.model)
        if row.name != f"layers {how}" or head is None or peak is None:
            continue
        arch = catalog.model(row.model).architecture
        assert arch is not None and row.flops is not None and head.flops is not None
        depth = arch.layers / row.sizes["layers"]
        longer = row.sizes["tokens"] / head.sizes["tokens"]
        flops = depth * row.flops + longer * head.flops
        seconds = depth * row.seconds + longer * head.seconds
        shares.append(flops / seconds / peak)
        said.append(f"{row.model.rpartition('/')[2]} at {row.sizes['tokens']}")
    values = (min(shares), statistics.median(shares), max(shares)) if shares else None
    return key, values, f"layers and head of {', '.join(said)} tokens"


def _moved(key: SpeedKey, rows: Sequence[Measured], peak: float | None) -> Found:
    if not rows or peak is None:
        return key, None, ""
    rates = [_rate(row) for row in rows]
    together = sum(row.moved_bytes or 0 for row in rows) / sum(row.seconds for row in rows)
    values = (min(rates) / peak, together / peak, max(rates) / peak)
    return key, values, ", ".join(dict.fromkeys(row.name for row in rows))


def _optimizer(rows: Sequence[Measured], peak: float | None) -> Found:
    rates = {row.name: _rate(row) for row in rows}
    if "adamw-fused" not in rates or peak is None:
        return "optimizer-bandwidth", None, ""
    low, typical, high = min(rates.values()), rates["adamw-fused"], max(rates.values())
    values = low / peak, typical / peak, high / peak
    return "optimizer-bandwidth", values, "adamw-fused; ends by " + ", ".join(rates)


def _rate(row: Measured) -> float:
    assert row.moved_bytes is not None
    return row.moved_bytes / row.seconds


def _generated(rows: Sequence[Measured]) -> Found:
    key: SpeedKey = "hf-step-seconds-per-layer"
    if len(rows) < 2:
        return key, None, ""
    short, long = sorted(rows, key=lambda row: row.sizes["tokens"])[:2]
    steps = (long.sizes["tokens"] - short.sizes["tokens"]) * long.sizes["layers"]
    low, typical, high = (
        (seconds - short.seconds) / steps
        for seconds in (long.low_seconds, long.seconds, long.high_seconds)
    )
    return key, (low, typical, high), f"generate of {long.sizes['layers']} narrow layers"
