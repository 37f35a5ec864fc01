"""Counts the tokens of texts in a process of its own, with a folder as its argument.

Reads ``texts.jsonl`` and ``tokenizer.json`` there. Prints JSON lines: how many lines are ``done``,
now and then, and at last ``counts`` or ``error``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from planner.lengths.counted import counted
from planner.lengths.run.tokenizer_file import tokenizer_of_file

TEXTS, TOKENIZER = "texts.jsonl", "tokenizer.json"
CPU_SECONDS = 600
MEMORY_BYTES = 8 * 2**30
"""Of addresses: what a hostile file may make the library take at most."""
SAID_SECONDS = 0.25


def main(folder: str) -> None:
    """Count, and say how it goes."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        tokenizer = tokenizer_of_file((Path(folder) / TOKENIZER).read_bytes())
        with (Path(folder) / TEXTS).open(encoding="utf-8-sig") as lines:
            found = counted(_said(lines), tokenizer)
    except UnicodeDecodeError:
        _say(error="The texts are not UTF-8.")
    except MemoryError:
        _say(error=f"Counting takes more than {MEMORY_BYTES // 2**30} GiB of host RAM.")
    except ValueError as error:
        _say(error=str(error))
    else:
        _say(counts={str(tokens): times for tokens, times in found.items()})


def _said(lines: Iterable[str]) -> Iterator[str]:
    last = time.monotonic()
    for number, line in enumerate(lines):
        if time.monotonic() - last > SAID_SECONDS:
            last = time.monotonic()
            _say(done=number)
        yield line


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
