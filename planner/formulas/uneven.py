"""What GPUs with fewer tokens lose to the one with the most."""

from planner.formulas.duration import Rate

UNEVEN = Rate(
    "waiting for the GPU with the longest rows",
    "maximum(computed_seconds * (imbalance - 1) - launch_seconds, 0)",
    unit="seconds",
    source="collectives end when the last GPU comes to them; imbalance: the expected maximum over "
    "GPUs of lengths drawn independently (planner/quantities.py)",
    why="Rows of other lengths fall to each GPU, and the step goes on with the slowest.",
    ignores="that what does not grow with tokens, such as the optimizer's part, is the same on all",
)
