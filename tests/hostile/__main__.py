"""Hostile values through every exporter and importer: the intended words arrive, and nothing runs.

``PYTHONPATH=.:tests python -m hostile 20000`` draws so many values. Some are given to exported
scripts as what these ask for, each launched with stand-ins; the others are written into scripts
and configurations in every way that these have, read by the importers, and put into benign ones by
an import's way back. What is right is told by bash, YAML's and JSON's own readers, hydra's parser
and Python.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from hostile.bundles import Exports
from hostile.texts import READ, read, ways
from hostile.values import Wrong, drawn
from hostile.written import Back
from shells import Bash

LAUNCHED = 0.15
"""Share of turns that launch a bundle, which takes several values and most of the time."""


def tried(values: int, seed: int, folder: Path) -> Iterator[tuple[int, str]]:
    """How many values were tried, time and again, and what was wrong with them, if anything."""
    dice = random.Random(seed)
    bash = Bash(folder)
    exports, back = Exports(folder / "exports", dice), Back(bash)
    (folder / "exports").mkdir()
    done = 0
    for number in count():
        if done >= values:
            return
        new, wrong, what = 1, "", ""
        value = drawn(dice)
        try:
            if dice.random() < LAUNCHED:
                what = "exported"
                new = exports.tried()
            elif number % 3 == 0:
                what = "back in a script"
                back.script(dice, value)
            elif number % 3 == 1:
                what = "back in a file"
                back.document(dice, value)
            else:
                able = [one for one in ways(dice, value) if one[0] in READ]
                framework, name, texts = dice.choice(able)
                what = f"read by {framework}"
                read(framework, name, texts, value)
            if list(folder.rglob("pwned")):
                raise Wrong("something ran")
        except Wrong as error:
            wrong = f"{what}: {error}"
        done += new
        yield done, wrong


def main(values: int, seed: int = 42) -> int:
    """Print what went wrong; how often it did."""
    wrong: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for _, said in tried(values, seed, Path(folder)):
            wrong[said] += bool(said)
    failed = sum(wrong.values())
    print(f"{values:,} hostile values, {failed:,} of which went wrong.")
    for said, times in wrong.most_common(20):
        if times:
            print(f"{times} × {said[:600]}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:])), 1))
