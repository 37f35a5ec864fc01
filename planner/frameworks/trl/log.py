"""transformers' and TRL's history: printed dictionaries, and ``log_history`` of trainer_state.json.

``ProgressCallback`` and ``PrinterCallback`` (transformers 5 trainer_callback.py) print numbers as
text; TRL's GRPO and RLOO trainers add ``completions/…`` and ``step_time``; with
``skip_memory_metrics=False`` the last line has bytes (trainer_utils.py ``TrainerMemoryTracker``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.importer.lines import Log
from planner.importer.logs.measured import (
    Figure,
    LoggedLengths,
    Measured,
    Steps,
    mean,
    middle,
    most,
)

HINTS = ("'loss'", "'train_runtime'", "'step_time'", "'completions/mean_length'")
MEMORY = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta")
PEAKED = "train_mem_gpu_peaked_delta"
MOST_ROWS = 100_000

_PAIR = re.compile(r"'([^'\s]{1,120})': '?(-?\d{1,18}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)'?[,}]")


def read(log: Log) -> Measured | None:
    """What the history says; None where the text has none."""
    rows = [*_state(log.text)] if '"log_history"' in log.text else []
    for at in log.having(HINTS):
        line = log[at].text
        begun = line.find("{'")
        if begun >= 0 and (found := _PAIR.findall(line[begun:])):
            rows.append({name: float(value) for name, value in found})
    return _measured(rows) if rows else None


def _state(text: str) -> Iterator[Mapping[str, float]]:
    """Rows of a trainer's state; none where it is not what transformers writes."""
    try:
        data: Any = json.loads(text, parse_int=_whole)
    except (ValueError, RecursionError):
        return
    rows = data.get("log_history") if isinstance(data, dict) else None
    for row in rows[:MOST_ROWS] if isinstance(rows, list) else ():
        if isinstance(row, dict):
            yield {
                str(name)[:120]: float(value)
                for name, value in row.items()
                if isinstance(value, int | float)
            }


def _whole(digits: str) -> int:
    return int(digits[:18])


def _measured(rows: Steps) -> Measured:
    steps = [row for row in rows if "loss" in row or "step_time" in row]
    figures = []
    seconds, words = middle(steps, "step_time"), "step_time"
    if seconds is None and (rate := most(rows, "train_steps_per_second")):
        seconds, words = 1 / rate, "1 / train_steps_per_second"
    if seconds is not None:
        figures.append(Figure(words, "seconds", seconds))
    last = {name: value for row in rows for name, value in row.items()}
    if PEAKED in last:
        peak = last[PEAKED] + sum(last.get(name, 0.0) for name in MEMORY)
        figures.append(Figure(PEAKED, "allocated_bytes", peak))
    of = mean(steps, "completions/mean_length")
    lengths = of and LoggedLengths(
        mean=of,
        shortest=mean(steps, "completions/min_length"),
        longest=mean(steps, "completions/max_length"),
        cut=mean(steps, "completions/clipped_ratio"),
    )
    tokens = [row["num_tokens"] for row in steps if "num_tokens" in row]
    each = (tokens[-1] - tokens[0]) / (len(tokens) - 1) if len(tokens) > 1 else None
    return Measured(
        form="TRL" if lengths or "step_time" in last else "transformers",
        steps=len(steps),
        figures=tuple(figures),
        lengths=lengths or None,
        step_tokens=each,
    )
