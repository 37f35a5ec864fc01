"""The recipes of docs/adding.md, as somebody who follows them to the letter."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "adding.md"

# A fence may be the line above the next block, so none is taken at the end.
BLOCK = re.compile(r"^(?P<before>[^\n]+)\n\n```(?P<kind>\w+)\n(?P<text>.*?)(?=^```$)", re.M | re.S)
ROW_OF = re.compile(r"at the end of `(\w+)` in `(planner/[\w/]+\.json)`:$")
LAST = re.compile(r"^At the end of `\w+` in `(planner/[\w/]+\.py)`:$")
FILE = re.compile(r"`(planner/[\w/]+\.py)`:$")
COMMAND = "$ .venv/bin/python "
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`\[])")


@dataclass(frozen=True)
class Recipe:
    """One section of the document: its blocks, each with the line above it."""

    title: str
    blocks: tuple[tuple[str, str, str], ...]
    """Line above, kind, text."""
    sentences: tuple[str, ...]
    """What stands between the blocks, but for the lines above them."""

    @property
    def files(self) -> dict[str, str]:
        """Texts of the Python files to add, by path."""
        return {
            FILE.search(before)[1]: text  # type: ignore[index]
            for before, kind, text in self.blocks
            if kind == "python" and not LAST.search(before)
        }

    @property
    def ends(self) -> dict[str, str]:
        """What to add at the end of Python files, by path: of the class that is last in each."""
        found = ((LAST.search(before), text) for before, _, text in self.blocks)
        return {file[1]: text for file, text in found if file}

    @property
    def rows(self) -> Iterator[tuple[str, str, object]]:
        """File, list and row, of every row to add."""
        for before, kind, text in self.blocks:
            if kind == "json":
                name, file = ROW_OF.search(before).groups()  # type: ignore[union-attr]
                yield file, name, json.loads(text)

    @property
    def commands(self) -> Iterator[tuple[list[str], list[str]]]:
        """Words of each command after ``python``, and the lines shown under it."""
        for _, kind, text in self.blocks:
            if kind == "console":
                for part in text.removeprefix(COMMAND).split(f"\n{COMMAND}"):
                    command, *shown = part.splitlines()
                    yield shlex.split(command), shown

    def apply(self, copy: Path) -> None:
        """Do to a copy of the product what the recipe says."""
        for file, text in self.files.items():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            (copy / file).write_text(text, "utf-8")
        for file, text in self.ends.items():
            written = (copy / file).read_text("utf-8")
            (copy / file).write_text(written + text, "utf-8")
        for file, name, row in self.rows:
            written = json.loads((copy / file).read_text("utf-8"))
            written[name].append(row)
            (copy / file).write_text(json.dumps(written), "utf-8")


def recipes() -> dict[str, Recipe]:
    """Every recipe by its title."""
    _, *sections = re.split(r"^## ", DOCUMENT.read_text("utf-8"), flags=re.M)
    found = {}
    for section in sections:
        title = section.partition("\n")[0]
        blocks = tuple(match.group("before", "kind", "text") for match in BLOCK.finditer(section))
        assert len(blocks) * 2 == section.count("```"), title
        above = {before for before, *_ in blocks}
        lines = FENCED.sub("", section.partition("\n")[2]).splitlines()
        prose = " ".join(" ".join(line for line in lines if line not in above).split())
        found[title] = Recipe(title, blocks, tuple(SENTENCE.split(prose)))
    return found


def product(folder: Path, *titles: str) -> Path:
    """A copy of the product in a folder, with recipes applied to it."""
    for name in ("planner", "pages"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "app.py", folder)
    for title in titles:
        recipes()[title].apply(folder)
    return folder


def run(copy: Path, *words: str, status: int = 0) -> str:
    """What Python prints in a copy, on its standard error where it is meant to fail."""
    own = {
        "PYTHONPATH": str(copy),
        "HEADROOM_DATA": str(copy / "data"),
        "HEADROOM_CACHE": str(copy / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if not status else done.stderr
