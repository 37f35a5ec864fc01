"""Counting the tokens of a file of texts while a page looks at it: begun, looked at, given up.

The tokenizer is a stranger's file, so another process reads it, one at a time on this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

from planner.background import Background

ROOT = Path(__file__).resolve().parents[2]
WORKER = "planner.lengths.run.worker"
TEXTS, TOKENIZER = "texts.jsonl", "tokenizer.json"
POLL_SECONDS = 0.05
THREADS = "4"
"""Of the library, which would take every processor."""
_turn = threading.Lock()


class CountingError(Exception):
    """There are no counts; the message is a sentence for people."""


class GivenUp(Exception):
    """The person gave up waiting."""


class Counting(Background):
    """Token counts of one file of texts, by one tokenizer."""

    failed = "Counting failed"
    refusals = (CountingError,)
    given_up_by = (GivenUp,)

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
        while not _turn.acquire(timeout=POLL_SECONDS):
            self._go_on()
        try:
            with TemporaryDirectory(prefix="headroom-lengths-") as folder:
                (Path(folder) / TEXTS).write_bytes(self._texts)
                (Path(folder) / TOKENIZER).write_bytes(self._tokenizer)
                self._count(folder)
        finally:
            _turn.release()
            self._texts = self._tokenizer = b""

    def _count(self, folder: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "RAYON_NUM_THREADS": THREADS},
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            while True:
                self._go_on()
                if select([process.stdout], [], [], POLL_SECONDS)[0]:
                    line = process.stdout.readline()
                    if not line or self._heard(json.loads(line)):
                        break
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
        if not self.found:
            raise CountingError(
                "The tokenizer's process ended: it took too much time or memory. Give the "
                "tokenizer.json that belongs to the model's config.json, or a shorter file."
            )

    def _heard(self, said: dict[str, Any]) -> bool:
        """Takes what the process says; whether that was its last word."""
        if "error" in said:
            raise CountingError(str(said["error"]).removeprefix("lengths: "))
        self.done = said.get("done", self.done)
        counts = said.get("counts")
        if counts is None:
            return False
        self.found = Counter({int(tokens): int(times) for tokens, times in counts.items()})
        self.done = self.lines
        return True

    def _go_on(self) -> None:
        if self.cancelling:
            raise GivenUp
