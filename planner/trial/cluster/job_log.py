"""What a job's log says of its trial: progress, fields so far, the result. No Ray, no torch.

A log is whatever a machine elsewhere wrote, so every line is hostile until it has been read:
progress goes through a strict model, a result through :func:`planner.trial.ask.result.read_result`
and has to be of this very trial. The rest is kept as what the job said, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from planner.catalog.safe_json import read_object
from planner.jobs.folder import JobFolder
from planner.jobs.strict import Count, Line, Seconds, Strict
from planner.trial.ask.request import TrialRequest
from planner.trial.ask.result import Environment, TrialResult, read_result

LINE_CHARACTERS = 4 * 2**20
"""Longest line that is read; a result with every term of every phase is far below."""
LOG_CHARACTERS = 64 * 2**20
"""All that is read of one log; a trial of a thousand steps writes 1 MiB."""
EVENTS = 50_000
SAID_CHARACTERS = 256 * 1024
"""Of lines that are no progress, what is kept."""

Word = Annotated[Line, Field(max_length=100)]


class Event(Strict):
    """A line of progress. The node's clock is left out: this machine says when it heard of it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    name: Word
    phase: Word | None = None
    status: Word | None = None
    step: Count | None = None
    steps: Count | None = None
    layers: Count | None = None
    limit_seconds: Seconds | None = None


class Heard:
    """Everything a trial's log has said so far."""

    def __init__(self, request: TrialRequest, folder: JobFolder[Any, Any]) -> None:
        self.request, self.folder = request, folder
        self.result: TrialResult | None = None
        """The last valid result of this trial."""
        self.refused = ""
        """Why the last line that wanted to be a result is none."""
        self.last = ""
        """The last line that is no progress."""
        self.characters = 0
        """Read so far, from the log's beginning."""
        self._line: list[str] = []
        self._length = 0
        self._events = 0
        self._said = 0

    @property
    def too_much(self) -> bool:
        """Whether the log is longer than any trial's."""
        return self.characters > LOG_CHARACTERS

    def feed(self, text: str) -> None:
        """Read on; a line may come in several pieces."""
        self.characters += len(text)
        for line in self._whole_lines(text):
            self._read(line)

    def finish(self) -> None:
        """Read what came after the last line break, when nothing more will come."""
        self.feed("\n")

    def _whole_lines(self, text: str) -> Iterator[str]:
        first, *rest = text.split("\n")
        self._add(first)
        for piece in rest:
            line, length = "".join(self._line), self._length
            self._line, self._length = [], 0
            if length <= LINE_CHARACTERS:
                yield line
            else:
                yield f"(a line of {length} characters was left out)"
            self._add(piece)

    def _add(self, piece: str) -> None:
        self._length += len(piece)
        if self._length <= LINE_CHARACTERS:
            self._line.append(piece)

    def _read(self, line: str) -> None:
        found = _object(line)
        if found is None:
            self._talk(line)
        elif "status" in found and "id" in found:
            self._take(line)
        elif found.get("name") == "known":
            known = found.get("known")
            known = known if isinstance(known, dict) else {}
            told = known.get("environment")
            own = told if isinstance(told, dict) else {"versions": {}}
            self.folder.remember({**known, "environment": {**own, "cluster": self.request.ray}})
        else:
            self._event(found, line)

    def _take(self, line: str) -> None:
        try:
            result = read_result(line)
            if result.id != self.folder.identifier:
                raise ValueError(f"id: it is of another trial, {result.id}.")
            if result.plan != self.request.plan:
                raise ValueError("plan: it is of another plan.")
        except ValueError as error:
            self.refused = str(error)
            self._talk(f"(a result was refused: {error})")
            return
        # The cluster's address is the one that this machine knows.
        environment = (result.environment or Environment(versions={})).model_copy(
            update={"cluster": self.request.ray}
        )
        self.result = result.model_copy(update={"environment": environment})

    def _event(self, found: dict[str, Any], line: str) -> None:
        try:
            event = Event.model_validate(found)
        except ValidationError:
            self._talk(line)
            return
        self._events += 1
        if self._events <= EVENTS:
            more = event.model_dump(exclude={"name"}, exclude_none=True)
            self.folder.say(event.name, **more)

    def _talk(self, line: str) -> None:
        if line.strip():
            self.last = line.strip()[:2000]
        kept = line[: max(0, SAID_CHARACTERS - self._said)]
        self._said += len(kept) + 1
        if kept:
            with (
                suppress(OSError),  # a full disk does not end a trial
                open(self.folder.stderr, "a", encoding="utf-8", errors="replace") as file,
            ):
                file.write(kept + "\n")


def _object(line: str) -> dict[str, Any] | None:
    """The line as a JSON object; None when it is none, or is nested too deeply."""
    with suppress(ValueError):
        return read_object(line, most_bytes=LINE_CHARACTERS) if line.startswith("{") else None
    return None
