"""Sees to one run: checks what it was given, waits for its turn, runs its stages in processes.

It loads no torch. Whatever a stage does, the run has a result; what its stages have written stays,
so the same run can go on later.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.background import GivenUp
from planner.forks.client import ROOT
from planner.jobs.folder import JobFolder
from planner.jobs.strict import shown
from planner.jobs.turns import Turn
from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import SamplingResult, StageFigures, Status
from planner.sampling.ask.setup import predicted, prepared
from planner.sampling.ask.store import settle
from planner.trial.ask.supervisor import POLL_SECONDS, end_group, own_environment

STAGES_FILE = "stages.jsonl"
"""Figures of every stage, those of earlier tries included."""
WORKER = "planner.sampling.run.worker"
REFUSED = 4
"""A worker's exit status for what a person can mend; its last line says what."""
Heard = Callable[[Mapping[str, Any]], None]


class SamplingSupervisor:
    """One run from request to result."""

    def __init__(
        self,
        request: SamplingRequest,
        folder: JobFolder,
        heard: Heard = lambda event: None,
        root: Path | None = None,
    ) -> None:
        self.request, self.folder, self._heard, self._root = request, folder, heard, root
        self._began = time.monotonic()
        self._stop = False
        self._read = self._length()

    def stop(self, *_: Any) -> None:
        """End the run at the next look; a signal's handler."""
        self._stop = True

    def run(self) -> SamplingResult:
        """Do it all; the result is in the folder as well."""
        self.folder.own()
        turn = Turn([self.request.device], self.folder.identifier, self._root)
        try:
            turn.wait(lambda ahead: self._say("queued", ahead=ahead), self._stopping)
            return self._in_turn()
        except GivenUp:
            return self._ended("stopped", "The run was stopped while it waited for its turn.")
        except (ValueError, OSError) as error:
            return self._ended("failed", " ".join(str(error).split()))
        finally:
            turn.close()

    def _in_turn(self) -> SamplingResult:
        self._say("preparing")
        prepared(self.request, self.folder.path)
        self._predict()
        for names in processes(self.request):
            outcome = self._process(names)
            if outcome is not None:
                return outcome
        return self._ended("completed", "")

    def _stopping(self) -> bool:
        return self._stop or self.folder.asked_to_stop()

    def _process(self, names: tuple[str, ...]) -> SamplingResult | None:
        """Run some stages; how the run ended with them, or None when it goes on."""
        with open(self.folder.stderr, "ab") as said:
            # Not a fork: its memory is told, and nothing of others' may be in it.
            process = subprocess.Popen(
                [sys.executable, "-m", WORKER, str(self.folder.path), *names],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=ROOT,
                env=worker_environment(self.request, names),
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                self._listen()
                if self._stopping():
                    return self._ended("stopped", f"The run was stopped in {self._where()}.")
                time.sleep(POLL_SECONDS)
        finally:
            end_group(process)
        self._listen()
        if process.returncode == 0:
            return None
        last, place = self.folder.last_words()[:500], self._where()
        if process.returncode == REFUSED:
            return self._ended("failed", last)
        if process.returncode < 0:
            name = signal.Signals(-process.returncode).name
            return self._ended(
                "killed",
                f"{name} ended the run's process in {place}. Headroom did not send that signal: "
                "another process did, or the operating system, which does so when memory runs "
                "out. Everything that the run computed is kept.",
            )
        return self._ended("failed", f"The run ended in {place}: {last}")

    def _say(self, name: str, **more: Any) -> None:
        self.folder.say(name, **more)
        self._listen()

    def _length(self) -> int:
        try:
            return (self.folder.path / "progress.jsonl").stat().st_size
        except OSError:
            return 0

    def _listen(self) -> None:
        """Pass on what was said since."""
        try:
            with open(self.folder.path / "progress.jsonl", "rb") as file:
                file.seek(self._read)
                fresh = file.read()
        except OSError:
            return
        fresh = fresh[: fresh.rfind(b"\n") + 1]  # without a line that is being written
        self._read += len(fresh)
        for event in map(json.loads, fresh.splitlines()):
            self._heard(event)
            if event.get("name") == "calibrated":
                self._predict()

    def _predict(self) -> None:
        found = predicted(self.folder.path)
        if found is not None:
            self._say(
                "predicted",
                host_bytes=found.host_bytes,
                worst=found.worst.name,
                seconds={
                    each.name: round(each.seconds, 3)
                    for each in found.stages
                    if each.seconds is not None and each.duration and not each.duration.assumed
                },
            )

    def _where(self) -> str:
        found = "its beginning"
        for event in self.folder.progress():
            found = str(event.get("stage", event["name"]))
        return shown(found, 100)

    def _ended(self, status: Status, reason: str) -> SamplingResult:
        spent = time.monotonic() - self._began
        return settle(
            self.folder, result_of(self.folder, self.request, status, reason, seconds=spent)
        )


def processes(request: SamplingRequest) -> Iterator[tuple[str, ...]]:
    """The stages of each process: online, what embeds goes on to search beside its model.

    A cluster is not calibrated: this machine's rates are not its nodes'.
    """
    if request.ray:
        yield "ray", "weigh"
        return
    yield ("calibrate",)
    if request.mode == "online":
        yield "embed", "search", "weigh"
    else:
        yield ("embed",)
        yield "search", "weigh"


def result_of(
    folder: JobFolder, request: SamplingRequest, status: Status, reason: str, *, seconds: float
) -> SamplingResult:
    """A run's result from what its stages have left."""
    found = _object(folder.path / "found.json") if status == "completed" else {}
    stages = _stages(folder)
    peaks = [stage.host_peak_bytes for stage in stages if stage.host_peak_bytes is not None]
    expected = [one.predicted_peak_bytes for one in stages if one.predicted_peak_bytes is not None]
    tail = "" if status == "completed" else shown(folder.stderr_tail(), 8000, lines=True)
    whole = {
        "id": folder.identifier,
        "status": status,
        "reason": shown(reason, 2000),
        "request": request.model_dump(),
        "seconds": max(seconds, 0.0),
        "stages": [stage.model_dump() for stage in stages],
        "measured_peak_bytes": max(peaks, default=None),
        "predicted_peak_bytes": max(expected, default=None),
        "versions": versions(),
        "stderr_tail": tail,
        **found,
    }
    return SamplingResult.model_validate_json(json.dumps(whole))


def _stages(folder: JobFolder) -> list[StageFigures]:
    """Every stage that ended, a line a name; of one that was gone on with, the sum of its tries."""
    estimated = predicted(folder.path)
    expected = {} if estimated is None else {each.name: each for each in estimated.stages}
    found: dict[str, StageFigures] = {}
    try:
        lines = (folder.path / STAGES_FILE).read_text("utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        values = json.loads(line)
        name = values.pop("stage")
        values.pop("at", None)
        if name in expected:
            values["predicted_peak_bytes"] = expected[name].host_bytes
            duration = expected[name].duration
            if duration is not None and not duration.assumed:
                values["predicted_seconds"] = float(duration.seconds)
        one = StageFigures(name=name, **values)
        earlier = found.get(name)
        if earlier is not None:
            peaks = [p for p in (earlier.host_peak_bytes, one.host_peak_bytes) if p is not None]
            one = one.model_copy(
                update={
                    "seconds": earlier.seconds + one.seconds,
                    "host_peak_bytes": max(peaks, default=None),
                }
            )
        found[name] = one
    return list(found.values())


def versions() -> dict[str, str]:
    """Of the libraries that compute, as they are installed."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("torch", "transformers", "scikit-learn", "faiss-cpu", "pyarrow", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _object(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text("utf-8"))
    return found if isinstance(found, dict) else {}


def worker_environment(request: SamplingRequest, names: tuple[str, ...]) -> dict[str, str]:
    """A trial worker's, with memory that is given back."""
    found = {
        **own_environment(on_cpu=request.device == "cpu"),
        "TOKENIZERS_PARALLELISM": "false",
        # Arrow's own pool keeps what was freed; the system's gives it back.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    if "embed" not in names:
        # Large arrays are mapped and given back, however often; a forward would wait for it.
        found["MALLOC_MMAP_THRESHOLD_"] = f"{2**20}"
    return found
