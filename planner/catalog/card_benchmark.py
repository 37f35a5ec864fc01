"""What a benchmark of one device found: the shape of its JSON, strictly read, and committed ones.

``benchmarks/<gpu>.json`` holds a card's figures as :mod:`planner.benchmark` wrote them; a card
joins by adding that file. A file from elsewhere is hostile until :func:`read_benchmark` has read
it. What nobody measured is None, never 0. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from planner.catalog.safe_json import read_object
from planner.catalog.schema import CatalogError, Row
from planner.jobs.strict import in_a_sentence
from planner.speeds import BOUNDS, DIGITS, Speed, SpeedKey, Speeds

FOLDER = files("planner.catalog") / "benchmarks"

Line = Annotated[str, Field(pattern=r"^[\x20-\x7e]{0,300}$")]
Seconds = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=0, le=2**53)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9 \-]{0,59}$")]
Versions = Annotated[dict[Name, Line], Field(max_length=20)]

Part = Literal["products", "attention", "layers", "bandwidth", "decode", "launches", "host copy"]
Peak = Literal["dense peak", "memory bandwidth", "PCIe slot"]


class Strict(Row):
    """Frozen; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Measured(Strict):
    """One thing that was timed, and what it did meanwhile."""

    part: Part
    name: Name
    model: Annotated[str, Field(max_length=160, pattern=r"^[\w.\-/]*$")] = ""
    """Whose sizes these are; empty where they are no model's."""
    sizes: Annotated[dict[Name, Annotated[int, Field(ge=0, le=2**53)]], Field(max_length=12)]
    dtype: Literal["bf16", "fp32", ""] = ""
    seconds: Seconds
    """Median of the samples, of one run."""
    low_seconds: Seconds
    high_seconds: Seconds
    samples: Annotated[int, Field(ge=1, le=10**6)]
    flops: Amount | None = None
    moved_bytes: Annotated[Bytes, Field(ge=1)] | None = None
    """Read and written."""
    share: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    of: Peak | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low_seconds <= self.seconds <= self.high_seconds:
            raise ValueError("the median is not between the lowest and the highest sample")
        if (self.share is None) != (self.of is None):
            raise ValueError("a share needs the peak that it is of, and a peak its share")
        return self


class Derived(Strict):
    """One efficiency of ``efficiencies.json`` for this card."""

    key: SpeedKey
    low: float
    typical: float
    high: float
    rests_on: Line

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        lowest, highest = BOUNDS[self.key]
        if not lowest <= self.low <= self.typical <= self.high <= highest:
            raise ValueError(f"{self.key} is out of order or outside {lowest} to {highest}")
        return self


class Peaks(Strict):
    """What shares are of: the catalog's datasheet figures on that day."""

    bf16_flops_per_second: Amount | None
    fp32_flops_per_second: Amount | None
    bandwidth_bytes_per_second: Amount | None
    slot_bytes_per_second: Amount | None
    """One direction."""


class Constants(Strict):
    """Memory of one process on the card, as the driver sees it."""

    total_bytes: Bytes
    others_bytes: Bytes | None
    """In use before this process came; None where the driver did not say."""
    context_bytes: Bytes | None
    """In use after the first tensor, less what others and the allocator hold."""
    loaded_bytes: Bytes | None
    """The same after every kernel of the benchmark was loaded."""
    cublas_forward_bytes: Bytes | None
    """What the first product added to the allocator, its result left out."""
    cublas_backward_bytes: Bytes | None
    """What its backward added, gradients left out: the autograd thread's own workspace."""
    cudnn_bytes: Bytes | None
    """What the first convolution added outside the allocator."""
    nccl_bytes: Bytes | None
    """What a first communicator of two processes added outside; None with one card."""


class BenchmarkedDevice(Strict):
    """Where it ran."""

    kind: Literal["cpu", "cuda"]
    name: Line
    gpu: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9\-]*$")] = ""
    """The catalog's key; empty for a processor, and for a card that the catalog lacks."""
    compute_capability: Line | None = None
    total_bytes: Bytes | None = None
    power_limit_watts: Amount | None = None
    sm_clock_hertz: Amount | None = None
    """While the benchmark ran."""
    max_sm_clock_hertz: Amount | None = None


class CardBenchmark(Strict):
    """One benchmark, whole."""

    v: Literal[1] = 1
    source: Literal["benchmark"] = "benchmark"
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9\-]{5,63}$")]
    created: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
    budget_seconds: Seconds
    seconds: Seconds
    """All of it, imports included."""
    device: BenchmarkedDevice
    versions: Versions
    driver: Line | None = None
    peaks: Peaks
    measured: Annotated[tuple[Measured, ...], Field(max_length=400)]
    derived: Annotated[tuple[Derived, ...], Field(max_length=12)] = ()
    constants: Constants | None = None
    notes: Annotated[tuple[Line, ...], Field(max_length=200)] = ()

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.derived and not self.device.gpu:
            raise ValueError("derived values are of no card of the catalog")
        if len({one.key for one in self.derived}) != len(self.derived):
            raise ValueError("an efficiency is derived twice")
        if "torch" not in self.versions:
            raise ValueError("versions has no torch")
        return self


def ascii_line(text: str) -> str:
    """Any text as a :data:`Line` allows it."""
    return "".join(one if " " <= one <= "~" else "?" for one in text)[:300]


def benchmark_json(found: CardBenchmark) -> str:
    """The benchmark as JSON, for a file and for a commit."""
    return found.model_dump_json(indent=1)


def read_benchmark(text: str | bytes) -> CardBenchmark:
    """The benchmark in JSON that anybody may have written.

    Raises:
        ValueError: one sentence that names the field.
    """
    read_object(text, "benchmark", "benchmark")
    with in_a_sentence("benchmark"):
        return CardBenchmark.model_validate_json(text)


def speeds_of(found: CardBenchmark) -> Speeds | None:
    """What an estimate takes from a benchmark; None where it tells nothing of a card."""
    if not found.derived:
        return None
    speeds = tuple(
        Speed(one.key, *(round(value, DIGITS) for value in (one.low, one.typical, one.high)))
        for one in found.derived
    )
    return Speeds(
        gpu=found.device.gpu,
        torch=found.versions["torch"],
        driver=found.driver or "",
        date=found.created[:10],
        speeds=speeds,
    )


@cache
def committed() -> Mapping[str, CardBenchmark]:
    """The benchmarks that come with the catalog, by card.

    Raises:
        CatalogError: for a file that is damaged, or has another card in it than its name says.
    """
    found: dict[str, CardBenchmark] = {}
    for file in sorted(FOLDER.iterdir(), key=lambda one: one.name):
        key = file.name.removesuffix(".json")
        if key == file.name:
            continue
        try:
            found[key] = read_benchmark(file.read_bytes())
        except ValueError as error:
            raise CatalogError(f"benchmarks/{file.name}: {error}") from None
        if found[key].device.gpu != key:
            raise CatalogError(
                f"benchmarks/{file.name}: it is of {found[key].device.gpu or 'no card'}."
            )
    return MappingProxyType(found)
