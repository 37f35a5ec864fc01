"""What an estimate's times rest on for a card, in words."""

from __future__ import annotations

from planner.catalog.efficiencies import date_read
from planner.catalog.gpu_catalog import Gpu
from planner.kernels import tables_of


def seconds_source(gpu: Gpu) -> str:
    """Whose measurements stand behind a card's times, with versions and dates.

    What was measured on a person's own card replaces the tables, share by share.
    """
    tables = tables_of(gpu)
    rest = f"what published runs and measurements gave (read {date_read()})"
    if tables is not None:
        rest = f"{tables.words}; what they lack by {rest}"
    if gpu.speeds is None:
        return rest
    keys = ", ".join(one.key for one in gpu.speeds.speeds)
    return f"{keys} measured on {gpu.key} ({gpu.speeds.words}); for the rest {rest}"
