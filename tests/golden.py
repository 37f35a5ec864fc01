"""Golden estimates: what every released preset gives today, phase by phase.

Not a check of truth (other tests do that) but of change: a commit that moves a number
has to write this file anew, ``scripts/golden``, and explain each delta in the
changelog.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.estimate import estimate
from planner.plan.presets import presets

FILE = Path(__file__).parent / "fixtures" / "golden-estimates.json"


def current() -> dict[str, Any]:
    """Every preset's verdict, and each phase's four totals, instant and seconds."""
    answers = {}
    for preset in presets().values():
        footprint = estimate(preset.plan)
        answers[preset.key] = {
            "verdict": footprint.verdict.sentence,
            "phases": {
                phase.name: {
                    "instant": phase.instant,
                    "requested_bytes": phase.requested_bytes,
                    "allocated_bytes": phase.allocated_bytes,
                    "reserved_bytes": phase.reserved_bytes,
                    "device_bytes": phase.device_bytes,
                    "host_bytes": phase.host_bytes,
                    "seconds": None if phase.seconds is None else round(phase.seconds, 4),
                }
                for phase in footprint.phases
            },
        }
    return answers


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {FILE.name}; explain every delta in CHANGELOG.md")
