"""Rows of the committed grids, run dry again; as evidence while nothing that decides them moves."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

from accuracy import grid
from accuracy.framework_grid import GRIDS
from dry_peaks import PACKAGES
from evidence import STEPS, Evidence
from planner.plan import Plan
from planner.plan.frameworks import OWN

FIXTURE = Path(__file__).parent / "fixtures" / "grid-terms.json"
EARLIER = json.loads(FIXTURE.read_text("utf-8"))
"""Rows of an earlier grid, each with a term that it once showed missing, or the step's own."""
OF_THE_STEP = tuple(at for at, row in enumerate(EARLIER["rows"]) if not row["terms"])
AGAIN = tuple(range(7, 320, 53))
"""Rows of our step's grid that take seconds, not a minute."""
SAME = (28,)
"""Number of a plan of each framework's grid."""
EVIDENCE = Evidence(
    "grid-rows",
    of=(
        *("accuracy.grid", "planner.frameworks.trl.run.step", "planner.frameworks.verl.run.step"),
        *STEPS,
    ),
    kinds={f"ours, {at}": "ours" for at in AGAIN}
    | {f"earlier, {at}": "ours" for at in OF_THE_STEP}
    | {f"{name}, {at}": "a framework's" for name in GRIDS for at in SAME},
)


def unchanged(name: str, number: int, row: dict[str, Any], code: str = OWN) -> None:
    """A dry run of the row's plan gives what the row has.

    Raises:
        AssertionError: it does not.
    """
    fields = row["fields"]
    plan = Plan(**fields)
    inputs = [plan.model_dump(), grid.configs(plan), *map(metadata.version, PACKAGES)]
    again = EVIDENCE.figures(f"{name}, {number}", inputs, lambda: grid.measured(fields, code))
    assert again.get("error") == row.get("error")
    assert again.get("phases") == row.get("phases")
