"""A benchmark in words: measured beside published, and the rows. No torch."""

from __future__ import annotations

from planner import catalog
from planner.catalog.card_benchmark import CardBenchmark, Measured
from planner.catalog.efficiencies import efficiencies
from planner.speeds import SpeedKey
from planner.units import read_bytes, read_seconds

HEADER = ("efficiency", "measured", "its range", "published", "published range")
LABELS: dict[SpeedKey, str] = {
    "training-compute": "Training, of the dense peak",
    "forward-compute": "Forward alone, of the dense peak",
    "decode-bandwidth": "Decoding, of the memory bandwidth",
    "optimizer-bandwidth": "Optimizer, of the memory bandwidth",
    "host-copy-bandwidth": "Pinned copies, of the PCIe slot",
    "hf-step-seconds-per-layer": "Transformers' launches, a layer",
}
"""What a person reads in place of a key."""
ROWS_HEADER = ("part", "what", "sizes", "time", "rate", "share")


def compared(found: CardBenchmark) -> list[tuple[str, str, str, str, str]]:
    """Per derived efficiency: typical and interval, measured and published."""
    card = catalog.gpu(found.device.gpu) if found.derived else None
    rows: list[tuple[str, str, str, str, str]] = []
    for one in found.derived:
        row = efficiencies()[one.key]
        published = row.published_for(card)
        seconds = row.unit.startswith("seconds")
        rows.append(
            (
                one.key,
                value(one.typical, seconds),
                _span(one.low, one.high, seconds),
                value(published.typical, seconds),
                _span(published.low, published.high, seconds),
            )
        )
    return rows


def value(number: float, seconds: bool) -> str:
    """A share in percent, or a time."""
    return f"{1e3 * number:.3g} ms" if seconds else f"{100 * number:.1f}%"


def _span(low: float, high: float, seconds: bool) -> str:
    return f"{value(low, seconds)} to {value(high, seconds)}"


def listed(found: CardBenchmark) -> list[tuple[str, str, str, str, str, str]]:
    """Every row that was measured."""
    return [
        (
            row.part,
            row.name + (f" of {row.model.rpartition('/')[2]}" if row.model else ""),
            ", ".join(f"{value:,} {name}" for name, value in row.sizes.items()),
            _short(row.seconds),
            _rate(row),
            "" if row.share is None else f"{100 * row.share:.1f}% of {row.of}",
        )
        for row in found.measured
    ]


def _short(seconds: float) -> str:
    if seconds >= 0.1:
        return read_seconds(seconds)
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.3g} us"


def _rate(row: Measured) -> str:
    if row.flops is not None:
        return f"{row.flops / row.seconds / 1e12:.3g} TFLOP/s"
    if row.moved_bytes is not None:
        return f"{row.moved_bytes / row.seconds / 1e9:.3g} GB/s"
    return ""


def constants(found: CardBenchmark) -> list[str]:
    """The card's memory constants, in a line each; none where there are none."""
    own = found.constants
    if own is None:
        return []
    named = (
        ("CUDA context", own.context_bytes),
        ("the same with every kernel loaded", own.loaded_bytes),
        ("cuBLAS, forward's workspace", own.cublas_forward_bytes),
        ("cuBLAS, backward's workspace", own.cublas_backward_bytes),
        ("cuDNN, first convolution", own.cudnn_bytes),
        ("NCCL, first communicator of two", own.nccl_bytes),
    )
    return [
        f"{name}: {'not measured' if size is None else read_bytes(size)}" for name, size in named
    ]
