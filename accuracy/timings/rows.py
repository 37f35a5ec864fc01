"""Published timings, read from times.json: figures and settings, with where they stand.

times.json is 244 rows, one a line, of public pages, logs and threads, gathered for this project
by its authors (read 2026-11) before the time model of tables and lengths was begun: facts only,
no text or code of others. ``source`` is a repository at a revision with a path, or an address;
``confidence`` and ``note`` say what of a row was inferred. Model sizes are totals, of mixtures
too. What was read elsewhere is kept by others for judging and is not here.

Rows of held projects (split.py) come without their figures unless ``final`` is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from accuracy.timings.split import Side, is_trainer, project, sides

FILE = Path(__file__).with_name("times.json")

FIGURES = {
    "rollout": "rollout_seconds",
    "log-probs": "logprob_seconds",
    "update": "update_seconds",
    "weight sync": "sync_seconds",
    "step": "step_seconds",
    "tokens/s per GPU": "tokens_per_second_per_gpu",
    "MFU": "mfu",
}
"""What this project says of a run → the key of what was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: its settings as the file has them, and what of it was published."""

    id: str
    project: str
    side: Side
    confidence: str
    settings: Mapping[str, Any]
    figures: Mapping[str, float]
    """By FIGURES' names; empty for a held row unless the final scoring reads it."""

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def trainer(self) -> bool:
        """Whether no rollout belongs to the row."""
        return is_trainer(self["method"])


@cache
def rows(*, final: bool = False) -> tuple[Row, ...]:
    """Every row, in the file's order; held figures only for the final scoring."""
    raw = json.loads(FILE.read_text("utf-8"))
    side_of = sides(raw)
    return tuple(_row(one, side_of[project(one["source"])], final) for one in raw)


def _row(raw: dict[str, Any], side: Side, final: bool) -> Row:
    figure = raw.pop("figure")
    known = {
        name: float(figure[key]) for name, key in FIGURES.items() if figure.get(key) is not None
    }
    return Row(
        id=raw["id"],
        project=project(raw["source"]),
        side=side,
        confidence=raw["confidence"],
        settings=raw,
        figures=known if final or side == "seen" else {},
    )
