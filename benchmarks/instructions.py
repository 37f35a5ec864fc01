"""Instructions and cache misses of an estimate beside an earlier commit's, counted by valgrind.

Run: python -m benchmarks.instructions COMMIT [METHOD [KIB]]. Two counts of one commit differ by up
to 2 % (where objects happen to lie), whatever else the machine does; seconds may differ by 10 %.
KIB is the size of the second cache, 512 by default: what misses it waits for the third, and
instructions alone do not tell how long an estimate takes. Needs valgrind, and takes some minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.against import ROOT, files_of

FIRST, LAST = 4, 64
"""Estimates of two runs, whose difference is what each further one takes."""

PROGRAM = """
import gc, sys
from planner import Plan, estimate

method, many = sys.argv[1], int(sys.argv[2])
plans = [
    Plan(method=method, prompts_per_step=512, response_tokens=1024 + at) for at in range(%d)
]
gc.disable()
for plan in plans[:many]:
    estimate(plan)
"""

COUNTED = {"instructions": "I *refs", "misses of the second cache": "LL misses"}


def counted(folder: Path, method: str, kib: int) -> dict[str, int]:
    """Each figure of one estimate by the files of a folder."""
    first, last = (_run(folder, method, kib, many) for many in (FIRST, LAST))
    return {name: round((last[name] - first[name]) / (LAST - FIRST)) for name in COUNTED}


def _run(folder: Path, method: str, kib: int, many: int) -> dict[str, int]:
    with tempfile.NamedTemporaryFile("r") as log:
        caches = ["--I1=32768,8,64", "--D1=32768,8,64", f"--LL={kib * 1024},8,64"]
        valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *caches]
        files = ["--cachegrind-out-file=/dev/null", f"--log-file={log.name}"]
        program = [sys.executable, "-c", PROGRAM % LAST, method, str(many)]
        # Hashes of strings decide what collides in a dict; a BLAS starts a thread a core.
        same = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([*valgrind, *files, *program], cwd=folder, env=same, check=True)
        said = log.read()
    found = {name: re.search(rf"{word}: +([\d,]+)", said) for name, word in COUNTED.items()}
    return {name: int(each[1].replace(",", "")) for name, each in found.items() if each}


def main(commit: str, method: str = "grpo", kib: str = "512") -> None:
    """Compare this checkout with a commit."""
    with files_of(commit) as folder:
        before, now = (counted(each, method, int(kib)) for each in (folder, ROOT))
    for name in COUNTED:
        ratio = now[name] / before[name]
        print(f"{method}, {name}: {before[name]:,} -> {now[name]:,} ({ratio:.2f})")


if __name__ == "__main__":
    main(*sys.argv[1:4])
