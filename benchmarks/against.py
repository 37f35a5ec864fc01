"""Estimates and a sweep of this checkout beside an earlier commit's, in turns on one machine.

Run: python -m benchmarks.against COMMIT [rounds]. The commit's files are put into a folder of their
own and run by the same Python. Seconds are the processor's, the quickest of many rounds of each
turn; a ratio of neighbours in time is of the code, whatever else the machine does. Prints a line a
turn, then one JSON line with the medians.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5

PROGRAM = """
import gc, json, time
from planner import Plan, estimate, sweep

def quickest(work, many):
    spent = []
    for at in range(many):
        start = time.process_time()
        work(at)
        spent.append(time.process_time() - start)
    return min(spent[many // 4:])

def plan(method, tokens):
    return Plan(method=method, prompts_per_step=512, response_tokens=tokens)

found = {}
for method in ("sft", "grpo", "ppo"):
    plans = [plan(method, 1024 + at) for at in range(240)]
    gc.disable()
    found[method] = 1e3 * quickest(lambda at: estimate(plans[at]), 240)
    gc.enable()
axes = lambda at: {
    "response_tokens": range(1000 + at, 9000 + at, 8), "prompt_tokens": range(64, 6464, 64)
}
found["100,000 plans"] = 1e3 * quickest(lambda at: sweep(plan("grpo", 1024), axes(at)), 8)
print(json.dumps(found))
"""


def measured(folder: Path) -> dict[str, float]:
    """Milliseconds of each piece of work by the files of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


@contextmanager
def files_of(commit: str) -> Iterator[Path]:
    """A folder with a commit's files."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def main(commit: str, rounds: str = str(ROUNDS)) -> None:
    """Compare this checkout with a commit."""
    with files_of(commit) as folder:
        turns = []
        for _ in range(int(rounds)):
            before, now = measured(folder), measured(ROOT)
            turns.append((before, now))
            said = (f"{name} {before[name]:.2f} -> {now[name]:.2f} ms" for name in now)
            print(", ".join(said), flush=True)
    ratios = {
        name: round(statistics.median(now[name] / before[name] for before, now in turns), 2)
        for name in turns[0][1]
    }
    print(json.dumps({"commit": commit, "times_the_commit": ratios}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
