"""What became of a run's settings, in figures."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accuracy.scripts.parsers import misread
from planner.importer.imported import Imported, imported
from planner.importer.reading import Entry
from planner.units import MIB

ANSWERS = ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")
"""Models for texts that leave theirs open, in turn until one makes a plan."""
SUMMED = ("runs", "understood", "open", "left_out", "no_effect", "plans", "answered")
MODELS = ("model", "critic_model", "reward_model")


@dataclass(slots=True)
class Counted:
    """Of one run, or of several together."""

    kind: str = ""
    """``planned``, ``not planned`` (another trainer, or one of the framework's that has no
    method here), ``beside`` (a part of a run), ``nothing``."""
    program: str = ""
    runs: int = 0
    understood: int = 0
    open: int = 0
    """No value in the text, so somebody is asked for it."""
    unknown: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    left_out: int = 0
    """Of those beyond, the ones that move memory, not seconds alone."""
    no_effect: int = 0
    checked: int = 0
    wrong: list[str] = field(default_factory=list)
    plans: int = 0
    answered: int = 0
    """Plans among them that a model was said for."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def settings(self) -> int:
        """Those that matter to memory or time, or may."""
        return self.understood + self.open + len(self.unknown) + len(self.beyond)

    @property
    def whole(self) -> bool:
        """Whether every setting has a field."""
        return self.kind == "planned" and not self.unknown and not self.beyond


def counted(texts: Mapping[str, str]) -> Counted:
    """Of the texts of one run."""
    began = time.perf_counter()
    found = imported(texts)
    seconds = time.perf_counter() - began
    reading = found.reading
    told = Counted(_kind(found), found.launch.program if found.launch else "", runs=1)
    told.seconds = seconds
    told.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told.notes = [*found.notes]
    if told.kind != "planned":
        told.unknown = _names(reading.unknown)
        return told
    told.understood = len(reading.understood)
    asked = [one for one in reading.open if one.asked and one.given and one.value is not None]
    unknown = {one.name for one in reading.unknown}
    told.open = len({one.name for one in asked} - unknown)
    told.unknown = _names(reading.unknown)
    told.beyond = _names([one for one in reading.beyond if one.given])
    told.left_out = sum(one.given and one.moves != "seconds" for one in reading.beyond)
    told.no_effect = len(reading.no_effect)
    plan, problems = found.plan, found.problems
    for model in ANSWERS if not plan and set(found.asks) & {*MODELS} else ():
        again = imported(texts, {name: model for name in MODELS if name in found.asks})
        plan, problems = again.plan, again.problems
        if plan:
            told.answered = 1
            break
    told.plans = int(plan is not None)
    told.problems = [] if plan else [one.sentence for one in problems]
    return told


def held(told: Counted, several: Sequence[Mapping[str, str]]) -> None:
    """A file's runs against their framework's own parser, which takes seconds to load."""
    for texts in several if told.kind == "planned" else ():
        checked, wrong = misread(imported(texts))
        told.checked += checked
        told.wrong += wrong


def _names(entries: Sequence[Entry]) -> list[str]:
    return [one.name for one in entries]


def _kind(found: Imported) -> str:
    if found.framework and found.reading.plan:
        return "planned"
    if found.framework or found.trainer or found.reading.unknown:
        beside = any("part of a run" in one for one in found.notes)
        return "beside" if beside else "not planned"
    return "beside" if any("part of a run" in one for one in found.notes) else "nothing"


def together(several: Sequence[Counted]) -> Counted:
    """A file's runs as one, of the kind that any of them has."""
    kinds = [one.kind for one in several]
    order = ("planned", "not planned", "beside", "nothing")
    total = Counted(min(kinds, key=order.index), several[0].program)
    for one in several:
        if one.kind == total.kind:  # an environment's server beside it trains nothing
            for name in SUMMED:
                setattr(total, name, getattr(total, name) + getattr(one, name))
            for name in ("unknown", "beyond", "problems", "notes"):
                getattr(total, name).extend(getattr(one, name))
        total.seconds = max(total.seconds, one.seconds)
        total.peak_bytes = max(total.peak_bytes, one.peak_bytes)
    return total


def peak_mib(one: Counted) -> int:
    """Of the whole process, Python and what it had loaded before included."""
    return round(one.peak_bytes / MIB)
