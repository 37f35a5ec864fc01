"""What GPUs with fewer tokens lose to the one with the most."""

from planner.formulas.duration import Rate

UNEVEN = Rate(
    "waiting for the GPU with the longest rows",
    "maximum(slowest_seconds - seconds, 0)",
    unit="seconds",
    source="collectives end when the last GPU comes to them; the slowest has the expected maximum "
    "over GPUs of tokens, their lengths drawn independently (planner/setup/quantities.py)",
    why="Each GPU gets rows of different lengths, and the step waits for the slowest GPU.",
)
