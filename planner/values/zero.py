"""DeepSpeed's defaults that decide what ZeRO holds, under its own names; no plan sets another.

Source: DeepSpeed 0.19.8, ``runtime/zero/config.py`` (read 2026-11). Imports nothing of ours.
"""

from __future__ import annotations

from typing import NamedTuple


class ZeroDefaults(NamedTuple):
    """Numbers of elements, not bytes."""

    reduce_bucket_size: int = 500_000_000
    """Of the flat buffer in which gradients are collected."""
    sub_group_size: int = 1_000_000_000
    """Of a partition that stage 3's optimizer steps at once."""
    stage3_max_live_parameters: int = 1_000_000_000
    """Up to which weights stay gathered."""
    stage3_max_reuse_distance: int = 1_000_000_000
    """Weights whose next use is nearer are not released."""
    stage3_prefetch_bucket_size: int = 50_000_000
    """From which a group of weights that are fetched ahead is full."""
    stage3_param_persistence_threshold: int = 100_000
    """Below which a weight is never partitioned."""


ZERO = ZeroDefaults()
