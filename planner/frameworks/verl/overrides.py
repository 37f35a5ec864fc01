"""A plan as hydra overrides of verl 0.9.1's configuration: the table's values of it."""

from __future__ import annotations

from planner.frameworks.verl.settings import SETTINGS
from planner.frameworks.verl.settings.rows import Added
from planner.plan import Plan


def overrides(plan: Plan) -> dict[str, object]:
    """Every hydra override with a value from the plan; those with a path are in the script."""
    written = ((row, row.write(plan)) for row in SETTINGS if row.write)
    values: dict[str, object] = {
        f"+{row.name}" if isinstance(row, Added) else row.name: value
        for row, value in written
        if value is not None
    }
    return {**values, "trainer.logger": "[console]"}
