"""What the grids of frameworks' own code say of the closed form: signed errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accuracy.framework_grid import GRIDS, FrameworkGrid
from accuracy.grid_summary import differences, largest, percent, percentile, stored, tables
from planner.frameworks import framework_named

NEAR = 0.01
"""What the two may differ by."""

INTRODUCTION = """
Plans drawn as the grid's above, whose dry runs execute TRL's or verl's own code; what that code
does not run ([TRL's](trl-step.md), [verl's](verl-step.md) own step) is in no grid. Each framework
has three: one of the models that the closed form was looked at with, one of others, and one of what
its code came to run later: TRL's on eight GPUs (FSDP2, DDP), verl's with token budgets, offloading
and Liger's kernels.
`python -m accuracy.framework_grid NAME` ({names}) runs one, each row with a hash of the settings
that the framework was given and of all versions; a test refuses a row that would be told otherwise
today, and repeats some (`tests/accuracy/test_framework_grid.py`). The error is the closed form's,
signed: negative is too low. Both leave cuBLAS's workspaces out.
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
        f"{len(data['impossible'])} that no such plan has ({names}). In absolute value, 95 % of "
        f"the {len(found)} phases differ by {p95} at most, half of them by {p50}; {far} by more "
        f"than {100 * NEAR:.0f} %, {low} of them too low."
    )
    refused = (f"- plan {n}: {row['error']}" for n, row in _refused(data))
    return "\n\n".join([told, *tables(found), largest(found), *refused])


def _others(grid: FrameworkGrid) -> str:
    told = grid.name.removeprefix(grid.framework)
    return TITLES[told]


def _refused(data: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((number, row) for number, row in enumerate(data["rows"]) if "error" in row)
