"""Counts the tokens of texts in a process of its own, which is asked a folder.

Reads ``texts.jsonl`` and ``tokenizer.json`` there, and tells now and then how many lines are done.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from planner.background import Refused
from planner.jobs.worker import Told, serve
from planner.lengths.counted import counted
from planner.lengths.counting import TEXTS, TOKENIZER
from planner.lengths.run.tokenizer_file import tokenizer_of_file

CPU_SECONDS = 600
MEMORY_BYTES = 8 * 2**30
"""Of data: what a hostile file may make the library take at most."""
SAID_SECONDS = 0.25


def count(folder: str, tell: Told) -> dict[int, int]:
    """How often each length is among the texts of a folder.

    Raises:
        Refused: with a sentence, where they cannot be counted.
    """
    try:
        tokenizer = tokenizer_of_file((Path(folder) / TOKENIZER).read_bytes())
        with (Path(folder) / TEXTS).open(encoding="utf-8-sig") as lines:
            return counted(_said(lines, tell), tokenizer)
    except UnicodeDecodeError:
        raise Refused("The texts are not UTF-8.") from None
    except ValueError as error:
        raise Refused(str(error).removeprefix("lengths: ")) from None


def _said(lines: Iterable[str], tell: Told) -> Iterator[str]:
    last = time.monotonic()
    for number, line in enumerate(lines):
        if time.monotonic() - last > SAID_SECONDS:
            last = time.monotonic()
            tell(number)
        yield line


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    serve(count, "Counting failed", memory_bytes=MEMORY_BYTES)
