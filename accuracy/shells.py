"""``python -m accuracy.shells FOLDER``: of how many shell scripts a start of a program is read.

Prints a line for each script that gives none, and one for each that is refused or partly unread,
then counts. Nothing of it is kept: it reads other people's scripts, which are theirs.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from planner.importer.given import UnreadableError
from planner.importer.shell import read_shell

BESIDE = (".sh", ".bash", ".env", ".slurm", ".sbatch")
MOST_CHARACTERS = 400_000


def outcome(path: Path, beside: dict[str, str]) -> tuple[str, str]:
    """What became of a script: one word, and what a person would want to know."""
    try:
        launches = read_shell(path.read_text("utf-8", "replace"), path.name, beside)
    except UnreadableError as error:
        return "refused", str(error)
    if not launches:
        return "no start", ""
    unread = [place.line for launch in launches for place in launch.unread]
    programs = ", ".join(sorted({launch.program for launch in launches}))
    if unread:
        return "partly unread", f"lines {sorted(set(unread))[:10]}: {programs}"
    asked = {o.name for one in launches for w in one.arguments for o in w.opens if not w.known}
    return "started", f"{programs}; open: {', '.join(sorted(asked)) or 'nothing'}"


def main(folder: Path) -> None:
    """Read every script of a folder and say what became of them."""
    counts: Counter[str] = Counter()
    slowest = 0.0
    for path in sorted(folder.rglob("*.sh")):
        beside = {
            str(other.relative_to(path.parent)): other.read_text("utf-8", "replace")
            for other in path.parent.iterdir()
            if other.suffix in BESIDE and other != path and other.stat().st_size < MOST_CHARACTERS
        }
        began = time.perf_counter()
        word, said = outcome(path, beside)
        slowest = max(slowest, time.perf_counter() - began)
        counts[word] += 1
        if word != "started" or "-v" in sys.argv:
            print(f"{word:>13}  {path.relative_to(folder)}  {said}")
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    print(f"{sum(counts.values())} scripts; the slowest took {slowest:.3f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
