"""Which projects' timings may be looked at while the time model is built, and which not.

The rule, written down before any prediction was compared, uses names and counts alone:

1. A row's project is its source without revision and path; a project lies wholly on one side.
2. Projects are RL (most rows time an RL step or its weight sync) or trainers (RL trainers alone,
   fine-tuning, pretraining).
3. Within a kind, projects stand by rows, most first, ties by name, and are taken in pairs. The
   first of a pair is held if the first 32 bits of its name's SHA-256 are odd, its partner on the
   other side; one without a partner goes where its own bit says.

A plain hash of each name, tried first, put verl and NeMo RL on one side and left the other with a
single RL row that a plan can express. prime-rl alone has RL trainers without their rollout, so
one half has none. The two projects that set constants of the planner before (llm-foundry and
torchtitan, see planner/catalog/efficiencies.json) are seen, as they have to be.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

Side = Literal["seen", "held"]
TRAINERS = ("pretrain", "SFT", "DPO", "trainer")
"""Words of a method that no rollout belongs to."""


def project(source: str) -> str:
    """A source's repository, or its site.

    Raises:
        ValueError: for a source that names neither.
    """
    found = re.match(r"(?:https?://github\.com/)?([\w.-]+/[\w.-]+?)(?:@|/(?:issues|pull)/)", source)
    site = re.match(r"https?://([^/]+)/", source)
    if found is None and site is None:
        raise ValueError(f"source: {source!r} names no repository and no site.")
    return found[1] if found else site[1] if site else ""


def is_trainer(method: str) -> bool:
    """Whether a row times training alone, without rollouts."""
    return any(word in method for word in TRAINERS)


def sides(rows: Iterable[Mapping[str, Any]]) -> dict[str, Side]:
    """Project → side, by the rule above."""
    trainers: dict[str, Counter[bool]] = {}
    for row in rows:
        kinds = trainers.setdefault(project(row["source"]), Counter())
        kinds[is_trainer(row["method"])] += 1
    found: dict[str, Side] = {}
    for kind in (False, True):
        names = [name for name, kinds in trainers.items() if kinds.most_common(1)[0][0] is kind]
        names.sort(key=lambda name: (-trainers[name].total(), name))
        for first in range(0, len(names), 2):
            held = _odd(names[first])
            for name in names[first : first + 2]:
                found[name] = "held" if held else "seen"
                held = not held
    return found


def _odd(name: str) -> bool:
    return bool(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 2)
