"""Golden estimates: what every released preset and stored link gives today.

Not a check of truth (other tests do that) but of change: a commit that moves a number
has to write these files anew, ``scripts/golden``, and explain each delta in the
changelog; of a link, in the fixture too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.estimate import estimate
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.plan.presets import presets

FILE = Path(__file__).parent / "fixtures" / "golden-estimates.json"
LINKS = FILE.with_name("links.json")


def current() -> dict[str, Any]:
    """Every preset's verdict and the lines below it; each phase's four totals, instant, seconds."""
    answers = {}
    for preset in presets().values():
        footprint = estimate(preset.plan)
        answers[preset.key] = {
            "verdict": footprint.verdict.sentence,
            "lines": list(footprint.verdict.lines),
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


def figures(plan: Plan) -> dict[str, Any]:
    """What a stored link is held to."""
    found = estimate(plan)
    return {
        "device_bytes": found.device_bytes,
        "requested_bytes": max(phase.requested_bytes for phase in found.phases),
        "step_seconds": found.step_seconds,
        "worst_phase": found.worst.name,
    }


def released(file: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The stored links that have the numbers that they gave."""
    return [link for link in file["links"] if "gave" in link]


def same(now: float | str, told: float | str) -> bool:
    """A sum made in another order is no other number."""
    if isinstance(now, float) and isinstance(told, float):
        return math.isclose(now, told, rel_tol=1e-9)
    return now == told


def moved(link: Mapping[str, Any]) -> dict[str, Any]:
    """Its numbers that are others today; a question mark where nobody has said what moved one."""
    plan = from_query_string(link["link"]).plan
    assert plan is not None
    found = {}
    for name, now in figures(plan).items():
        before = link["moved"].get(name, {"now": link["gave"][name], "by": []})
        if not same(now, before["now"]):
            found[name] = {"now": now, "by": [*before["by"], "?"]}
        elif name in link["moved"]:
            found[name] = before
    return found


def write_links() -> None:
    """Today's numbers of the stored links."""
    file = json.loads(LINKS.read_text("utf-8"))
    for link in released(file):
        link["moved"] = moved(link)
    LINKS.write_text(json.dumps(file, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n", encoding="utf-8")
    write_links()
    print(f"wrote {FILE.name} and {LINKS.name}; explain every delta in docs/notes")
