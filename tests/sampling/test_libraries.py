"""What libraries take beside what they are given, measured in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCKS = """
import os, sys
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[1]
import numpy as np
from sklearn.neighbors import NearestNeighbors

def kib(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

vectors = np.random.default_rng(0).random((600, 12_000), np.float32)
search = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(vectors[:300, :64].copy())
search.kneighbors()
search = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(vectors)
before = kib("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
search.kneighbors()
print((kib("VmHWM") - before) * 1024)
"""


def test_scikit_learn_takes_a_block_for_each_thread() -> None:
    """Line 126: NearestNeighbors. Two blocks of 256 rows in float64 for each thread."""
    block = 2 * 256 * 12_000 * 8
    for threads in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", BLOCKS, str(threads)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(done.stdout) == pytest.approx(threads * block, rel=0.15), threads
