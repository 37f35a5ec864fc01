"""How the allocator is set up: the fields, and reading them from PYTORCH_ALLOC_CONF.

Keys and limits: c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.h, torch 2.13.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from planner.dryrun.allocator.rounding import INTERVALS
from planner.formulas.allocator import LARGE_FROM, LARGE_SEGMENT
from planner.units import MIB

WITHOUT_EFFECT = frozenset(
    {
        "graph_capture_record_stream_reuse",
        "pinned_free_catch_all",
        "pinned_max_cached_size_mb",
        "pinned_max_round_threshold_mb",
        "pinned_num_register_threads",
        "pinned_reserve_segment_size_mb",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
    }
)
"""Keys that torch knows and that change no device memory outside CUDA graphs."""


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """Settings of the caching allocator; the defaults are torch's.

    Raises:
        ValueError: A value that torch refuses too, with the field's name.
    """

    expandable_segments: bool = False
    """Grow one range of addresses by pages in place of buying segments."""
    roundup_power2_divisions: int | tuple[int, ...] = 0
    """Steps between two powers of two that sizes are rounded up to; 0 and 1 switch it off.
    A tuple holds 16 values, for sizes from 1 MiB, 2 MiB, 4 MiB, ... to 32 GiB."""
    max_split_size_bytes: int | None = None
    """Blocks of this size and above are never split; None: no limit."""
    max_non_split_rounding_bytes: int = LARGE_SEGMENT
    """How much larger a block may be than a request that is too large to be split."""
    large_segment_bytes: int = LARGE_SEGMENT
    """Segment for requests above 1 MiB and below 10 MiB; also the page of the large pool."""
    capacity_bytes: int | None = None
    """What the driver can give this process; None: without end."""
    garbage_collection_threshold: float = 0.0
    """Share of the allowed bytes above which old cached segments are given back before a new
    one is bought. As in torch, it acts only where ``per_process_memory_fraction`` is below 1."""
    per_process_memory_fraction: float = 1.0
    """Share of ``capacity_bytes`` that may be reserved."""

    def __post_init__(self) -> None:
        given, capacity = self.roundup_power2_divisions, self.capacity_bytes
        limit, large = self.max_split_size_bytes, self.large_segment_bytes
        share = self.per_process_memory_fraction
        for steps in given if isinstance(given, tuple) else (given,):
            if steps < 0 or steps & (steps - 1):
                raise ValueError(f"roundup_power2_divisions: {steps} is not a power of two")
        for wrong, message in (
            (
                isinstance(given, tuple) and len(given) != INTERVALS,
                f"roundup_power2_divisions: give {INTERVALS} values, or one",
            ),
            (large <= LARGE_FROM, "large_segment_bytes: must be above 10 MiB"),
            (
                limit is not None and limit < large,
                "max_split_size_bytes: must be at least large_segment_bytes",
            ),
            (
                self.max_non_split_rounding_bytes < large,
                "max_non_split_rounding_bytes: must be at least large_segment_bytes",
            ),
            (
                not 0.0 <= self.garbage_collection_threshold < 1.0,
                "garbage_collection_threshold: must be in [0, 1)",
            ),
            (capacity is not None and capacity < 0, "capacity_bytes: must not be negative"),
            (not 0.0 <= share <= 1.0, "per_process_memory_fraction: must be in [0, 1]"),
            (
                share < 1.0 and capacity is None,
                "per_process_memory_fraction: a share of the card needs capacity_bytes",
            ),
        ):
            if wrong:
                raise ValueError(message)

    @property
    def divisions(self) -> tuple[int, ...]:
        """The 16 roundings of ``roundup_power2_divisions``; empty when it is off."""
        given = self.roundup_power2_divisions
        values = given if isinstance(given, tuple) else (given,) * INTERVALS
        return values if max(values) > 1 else ()

    @property
    def allowed_bytes(self) -> int | None:
        """The most this process may reserve by ``per_process_memory_fraction``."""
        if self.capacity_bytes is None or self.per_process_memory_fraction >= 1.0:
            return None
        return int(self.per_process_memory_fraction * self.capacity_bytes)

    @classmethod
    def parse(cls, text: str, *, capacity_bytes: int | None = None) -> AllocatorSettings:
        """Settings from a ``PYTORCH_ALLOC_CONF`` string.

        Args:
            text: ``key:value,key:value``; whitespace does not matter.
            capacity_bytes: The card's bytes, which the string cannot say.

        Raises:
            ValueError: An unknown key, a bad value, or a setting that is not simulated; the
                key is named. Torch passes over a few malformed strings that this refuses.
        """
        fields: dict[str, Any] = {}
        for part in re.split(r",(?![^\[]*\])", re.sub(r"\s", "", text)):
            if part:
                key, _, value = part.partition(":")
                fields |= _read(key, value)
        # Torch moves the limit with the segment unless it is given.
        if "large_segment_bytes" in fields:
            fields.setdefault("max_non_split_rounding_bytes", fields["large_segment_bytes"])
        try:
            return cls(capacity_bytes=capacity_bytes, **fields)
        except ValueError as error:
            message = str(error)
            for key, field in _MEGABYTES.items():
                message = message.replace(field, key)
            raise ValueError(message) from None


_MEGABYTES = {
    "large_segment_size_mb": "large_segment_bytes",
    "max_split_size_mb": "max_split_size_bytes",
    "max_non_split_rounding_mb": "max_non_split_rounding_bytes",
}
"""Torch's megabytes are MiB."""


def _read(key: str, value: str) -> dict[str, Any]:
    """The field that one ``key:value`` sets."""
    try:
        if key in _MEGABYTES:
            return {_MEGABYTES[key]: int(value) * MIB}
        if key == "expandable_segments":
            return {key: {"True": True, "False": False}[value]}
        if key == "per_process_memory_fraction":
            return {key: float(value)}
        if key == "garbage_collection_threshold":
            if not 0.0 < float(value) < 1.0:
                raise ValueError
            return {key: float(value)}
        if key == "roundup_power2_divisions":
            return {key: _divisions(value)}
    except (KeyError, ValueError):
        raise ValueError(f"{key}: {value!r} is not a value it takes") from None
    if key in WITHOUT_EFFECT or (key, value) in _OFF:
        return {}
    if key in ("backend", "throw_on_cudamalloc_oom"):
        raise ValueError(f"{key}: {value!r} is not simulated, only torch's default is")
    raise ValueError(f"{key}: PYTORCH_ALLOC_CONF has no such key")


_OFF = {("backend", "native"), ("throw_on_cudamalloc_oom", "False")}


def _divisions(value: str) -> int | tuple[int, ...]:
    """One number, or ``[256:1,512:2,>:4]``: upper bounds in MiB, each with its divisions."""
    if not value.startswith("["):
        if int(value) < 1:
            raise ValueError
        return int(value)
    if not value.endswith("]"):
        raise ValueError
    steps = [0] * INTERVALS
    last = None
    for item in value[1:-1].split(","):
        bound, _, count = item.partition(":")
        if bound == ">":
            start = 1 if last is None else last + 1
            steps[start:] = [int(count)] * (INTERVALS - start)
            continue
        if int(bound) < 1 or int(bound) & (int(bound) - 1):
            raise ValueError
        index = min(int(bound).bit_length() - 1, INTERVALS - 1)
        if last is None:
            steps[:index] = [int(count)] * index
        steps[index] = int(count)
        last = index
    return tuple(steps)
