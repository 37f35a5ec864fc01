"""Counting the tokens of a file of texts while a page looks at it: begun, looked at, given up.

The tokenizer is a stranger's file, so another process reads it, one at a time on this machine.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planner.background import Background
from planner.forks.client import SETTING
from planner.jobs.worker import Worker, Workers

WORKER = "planner.lengths.run.worker"
TEXTS, TOKENIZER = "texts.jsonl", "tokenizer.json"
THREADS = "4"
"""Of the library, which would take every processor."""


def _begun() -> Worker:
    own = {name: value for name, value in os.environ.items() if name != SETTING}
    return Worker(
        WORKER,
        environment={**own, "RAYON_NUM_THREADS": THREADS},
        what="The tokenizer",
        otherwise="it took too much time or memory. Give the tokenizer.json that belongs to the "
        "model's config.json, or a shorter file",
    )


WORKERS = Workers(_begun, keeps=0)


class Counting(Background):
    """Token counts of one file of texts, by one tokenizer."""

    failed = "Counting failed"

    def __init__(self, texts: bytes, tokenizer: bytes) -> None:
        """Both are files' contents; the texts are JSON lines."""
        self.lines = texts.count(b"\n") + (not texts.endswith(b"\n"))
        self.done = 0
        """Lines that have been read."""
        self.found: Counter[int] = Counter()
        """How often each length is there, once it has ended well."""
        self._texts, self._tokenizer = texts, tokenizer
        super().__init__()

    def _work(self) -> None:
        with TemporaryDirectory(prefix="headroom-lengths-") as folder:
            (Path(folder) / TEXTS).write_bytes(self._texts)
            (Path(folder) / TOKENIZER).write_bytes(self._tokenizer)
            self._texts = self._tokenizer = b""
            counts = WORKERS.ask(folder, self._cancel.is_set, self._told)
        self.found = Counter({int(tokens): times for tokens, times in counts.items()})
        self.done = self.lines

    def _told(self, done: Any) -> None:
        self.done = done
