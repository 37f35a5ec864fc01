"""What the grids of frameworks' own code say of the closed form: signed errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accuracy.framework_grid import GRIDS, FrameworkGrid
from accuracy.grid_summary import differences, largest, percent, percentile, stored, tables
from planner.plan.frameworks import framework_named

NEAR = 0.01
"""What the two may differ by."""

INTRODUCTION = """
The plans are drawn like those of the grid above, and their dry runs execute TRL's or verl's own
code; plans that this code does not run ([TRL's](trl-step.md), [verl's](verl-step.md) own step) are
in no grid. Each framework has three grids: one of the models that the closed form was developed
with, one of other models, and one of the options that its code came to run later (for TRL eight
GPUs with FSDP2 or DDP, for verl token budgets, offloading and Liger's kernels).
`python -m accuracy.framework_grid NAME` ({names}) runs one, each row with a hash of the settings
that the framework was given and of all versions; a test refuses a row that would be told otherwise
today, and repeats some (`tests/accuracy/test_framework_grid.py`). The error is the closed form's,
signed: negative is too low. Dry run and closed form leave out cuBLAS's workspaces.
"""


TITLES = {
    "": "",
    "-families": ", other models",
    "-sharded": " on several GPUs",
    "-options": ", budgets and offloading",
}
"""What follows a framework's name, by what follows it in the name of its grid."""


def text() -> str:
    """The section, without its title."""
    introduction = INTRODUCTION.strip("\n").format(names=", ".join(f"`{name}`" for name in GRIDS))
    return "\n\n".join([introduction, *map(_of, GRIDS.values())])


def _of(grid: FrameworkGrid) -> str:
    data, found = stored(grid.measured), differences(grid.measured)
    far = sum(abs(item.error) > NEAR for item in found)
    low = sum(item.error < -NEAR for item in found)
    names = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
    p95, p50 = (percent(percentile(share, grid.measured)) for share in (95, 50))
    told = (
        f"### {framework_named(grid.framework).label}{_others(grid)}\n\n"
        f"{len(data['rows'])} plans, {data['factors']} settings, {data['pairs']:,} pairs beside "
        f"{len(data['impossible'])} that no such plan has ({names}). Of the {len(found)} "
        f"phases, half differ by at most {p50} in absolute value and 95 % by at most {p95}. More "
        f"than {100 * NEAR:.0f} % too high: {far - low}; more than {100 * NEAR:.0f} % too low: "
        f"{low}."
    )
    refused = (f"- plan {n}: {row['error']}" for n, row in _refused(data))
    return "\n\n".join([told, *tables(found), largest(found), *refused])


def _others(grid: FrameworkGrid) -> str:
    told = grid.name.removeprefix(grid.framework)
    return TITLES[told]


def _refused(data: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((number, row) for number, row in enumerate(data["rows"]) if "error" in row)
