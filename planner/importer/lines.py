"""A log's lines as values: what launchers put before them is taken off, and kept.

The text is anybody's: lines are found by plain words, and only those are read, each by patterns
that are tried at its start, so that the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MOST_CHARACTERS = 10 * 2**20
LINE_CHARACTERS = 20_000
"""Of a line; what is behind is no message's."""
MOST_PREFIXES = 6
MOST_HITS = 2_000

_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_PREFIX = re.compile(
    r"\s{0,4}(?:"
    r"\((?P<name>[A-Za-z_][\w.:]{0,80})?(?: ?rank=(?P<rank>\d{1,6}))?(?: ?pid=(?P<pid>\d{1,9}))?"
    r"(?:, ip=(?P<ip>[\w.:]{1,60}))?\)"
    r"|\[(?:rank|default)(?P<ranked>\d{1,6})\]:?"
    r"|(?P<labelled>\d{1,6}):(?= )"
    r"|\[?\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?,?:?"
    r"|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d"
    r"|\[[\w./-]{1,80}\.py:\d{1,6}\]"
    r") ?"
)


class Line(NamedTuple):
    """One line without its prefixes."""

    number: int
    """Counted from 1."""
    text: str
    process: str = ""
    """As Ray or vLLM calls it, with its number: ``WorkerDict pid=12``."""
    rank: int | None = None
    ip: str = ""


class Log:
    """A text by lines, which are read when they are asked for; ``text`` is all of it.

    Raises:
        ValueError: for more than 10 MiB.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(
                f"The text has more than {MOST_CHARACTERS // 2**20} MiB; give the part around the "
                "error, or the last steps of the log."
            )
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._lines = self.text.split("\n")

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, at: int) -> Line:
        return _read(at + 1, _ESCAPE.sub("", self._lines[at][:LINE_CHARACTERS]))

    def having(self, words: Iterable[str]) -> list[int]:
        """Places of the lines that have one of these, at most :data:`MOST_HITS` from each end."""
        text, found = self.text, set[int]()
        for word in words:
            at, hits = text.find(word), 0
            while at >= 0 and hits < MOST_HITS:
                found.add(text.rfind("\n", 0, at) + 1)
                end, hits = text.find("\n", at), hits + 1
                at = text.find(word, end) if end >= 0 else -1
            last, hits = text.rfind(word, at) if at >= 0 else -1, 0
            while last >= 0 and hits < MOST_HITS:
                start = text.rfind("\n", 0, last) + 1
                found.add(start)
                hits += 1
                last = text.rfind(word, at, start)
        starts = sorted(found)
        if len(starts) > 2 * MOST_HITS:
            starts = starts[:MOST_HITS] + starts[-MOST_HITS:]
        places, line, last = [], 0, 0
        for start in starts:
            line += text.count("\n", last, start)
            last = start
            places.append(line)
        return places


def _read(number: int, text: str) -> Line:
    process, ip, rank = "", "", None
    for _ in range(MOST_PREFIXES):
        found = _PREFIX.match(text)
        if found is None or found.end() == 0:
            break
        of = found.groupdict()
        if of["pid"] or of["name"] == "raylet":
            process = f"{of['name'] or ''} pid={of['pid']}".strip() if of["pid"] else "raylet"
        elif text.lstrip().startswith("("):
            break  # words in brackets
        ip = of["ip"] or ip
        said = of["rank"] or of["ranked"] or of["labelled"]
        rank = int(said) if said else rank
        text = text[found.end() :]
    return Line(number, text, process, rank, ip)
