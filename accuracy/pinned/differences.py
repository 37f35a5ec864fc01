"""Two records of one plan, figure by figure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from accuracy.pinned.record import Record
from accuracy.pinned.table import same

Figure = float | str | None


class Difference(NamedTuple):
    """A figure of a plan that two commits tell otherwise; None where one of them has no such."""

    phase: str
    """Name, role and rank; empty for what is said of the whole step."""
    what: str
    """A total, a term, a cause of time or an instant."""
    before: Figure
    after: Figure

    @property
    def more(self) -> float | None:
        """Signed bytes or seconds, a figure that is not there being none; None of words."""
        before, after = self.before or 0, self.after or 0
        return None if isinstance(before, str) or isinstance(after, str) else after - before

    def __str__(self) -> str:
        """A line for people."""
        place = ": ".join(filter(None, (self.phase, self.what)))
        more = "" if self.more is None else f" ({self.more:+,})"
        return f"{place}: {self.before} -> {self.after}{more}"


def differences(before: Record, after: Record) -> Iterator[Difference]:
    """Every figure and sentence that is another, gone or new."""
    one, other = dict(_figures(before)), dict(_figures(after))
    for place in [*one, *(place for place in other if place not in one)]:
        was, became = one.get(place), other.get(place)
        if not same(was, became) or (place in one) != (place in other):
            yield Difference(*place, was, became)


def summary(found: Iterable[Difference]) -> Iterator[str]:
    """Differences of many plans by phase and what moved: how many, and from what to what."""
    moves: Mapping[tuple[str, str], list[float]] = defaultdict(list)
    words: Counter[str] = Counter()
    for one in found:
        if one.more is None:
            words[f"{one.what}: {one.before} -> {one.after}"] += 1
        else:
            moves[one.phase, one.what].append(one.more)
    for (phase, what), more in sorted(moves.items(), key=lambda move: -len(move[1])):
        yield f"{len(more):5} × {phase}: {what} ({min(more):+,} to {max(more):+,})"
    for text, many in words.most_common():
        yield f"{many:5} × {text}"


def _figures(found: Record) -> Iterator[tuple[tuple[str, str], Figure]]:
    for name, said in found["words"].items():
        yield ("", name), said if isinstance(said, str) else " | ".join(said)
    for name, seconds in found.get("seconds", {}).items():
        yield ("", f"seconds, {name}"), seconds
    for name, phase in found.get("phases", {}).items():
        for what, figure in _of_phase(phase):
            yield (name, what), figure


def _of_phase(phase: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    yield "the peak's instant", phase["instant"]
    yield "seconds", phase["seconds"]
    for kind in ("bytes", "categories", "terms", "terms at least", "terms at most"):
        for name, figure in phase[kind].items():
            yield f"{kind}, {name}", figure
    for kind in ("causes", "instants"):
        seen: Counter[str] = Counter()
        for name, figure in phase[kind]:
            seen[name] += 1
            yield f"{kind}, {name}" + (f" ({seen[name]})" if seen[name] > 1 else ""), figure
