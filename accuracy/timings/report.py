"""The tables of docs/accuracy.md: published seconds beside predicted, signed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from accuracy.timings import chains, serving
from accuracy.timings.compare import PHASES, RATES, TARGETS, Figure, Reason, results
from accuracy.timings.rank import ranked
from accuracy.timings.rows import rows

HELD = Path(__file__).parents[1] / "measured" / "timings-held.json"
"""What the held half's one scoring wrote."""

AGAIN = HELD.with_name("timings-held-again.json")
"""The same half scored as a whole after the model had been changed, its rows unread."""

BEFORE = HELD.with_name("timings-before.json")
"""What the seen half was predicted before lengths and kernels by shape."""

RANK_TARGET = 0.8
MOST_NAMED = 4


def text() -> str:
    """The section: what is compared, the half seen while building, the half scored at the end."""
    seen, left = results("seen")
    parts = [INTRODUCTION.format(rows=len(rows())), "### Seen while the time model was built"]
    parts.append(side(seen, left))
    parts.append(f"Before lengths and kernels by shape ({_before()['model']}):")
    parts.append(medians(before(seen)) + "\n\n" + orders(before(seen)))
    parts.append("### Serving, token by token\n\n" + serving.text())
    parts.append("### Where a change for the better is not\n\n" + chains.text())
    parts.append("### Scored once, at the end")
    if HELD.exists():
        told = json.loads(HELD.read_text("utf-8"))
        parts.append(
            f"This half was scored on {told['scored']} by the model of that day, and recorded."
        )
        parts.append(told["coverage"])
        parts.append(side(_recorded(HELD), [Reason(*one) for one in told["left"]]))
    else:
        parts.append("Not scored yet.")
    if AGAIN.exists():
        told = json.loads(AGAIN.read_text("utf-8"))
        parts.append("### The same half by the model of today")
        parts.append(CHANGED.format(scored=told["scored"]) + " " + told["coverage"])
        parts.append(medians(_recorded(AGAIN)) + "\n\n" + orders(_recorded(AGAIN)))
    return "\n\n".join(parts)


def before(figures: Sequence[Figure]) -> list[Figure]:
    """The same figures as the model of before predicted them."""
    old = _before()["seconds"]
    keys = {f"{one.id} {one.phase}": one for one in figures}
    return [replace(one, predicted=old[key]) for key, one in keys.items() if key in old]


def _before() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(BEFORE.read_text("utf-8"))
    return told


def held() -> list[Figure]:
    """The held half's figures as they were last scored; none before."""
    return _recorded(AGAIN) or _recorded(HELD)


def _recorded(file: Path) -> list[Figure]:
    if not file.exists():
        return []
    return [Figure(**one) for one in json.loads(file.read_text("utf-8"))["figures"]]


def record(scored: str, coverage: str) -> None:
    """Write down the held half as it is scored now, with what the intervals cover of it.

    What its first scoring found stays where it is.
    """
    figures, left = results("held", final=True)
    told = {
        "scored": scored,
        "coverage": coverage,
        "figures": [asdict(one) for one in figures],
        "left": left,
    }
    file = AGAIN if HELD.exists() else HELD
    file.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def side(figures: Sequence[Figure], left: Sequence[Reason]) -> str:
    """A half's medians, orders, every figure and what has no plan."""
    return "\n\n".join((medians(figures), orders(figures), table(figures), reasons(left)))


def medians(figures: Sequence[Figure]) -> str:
    """Median errors by target and phase: of judged figures, and of all."""
    lines = [
        "| rows | phase | judged | median of sizes | target | signed median | worst | all "
        "| median of sizes | signed median |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for group, target in TARGETS.items():
        for phase in (*PHASES, *RATES):
            of_all = [one for one in figures if (one.group, one.phase) == (group, phase)]
            if not of_all:
                continue
            judged = [one.error for one in of_all if one.judged]
            cells = [
                str(len(judged)),
                _median(map(abs, judged)),
                f"{target:.0%}",
                _median(judged, signed=True),
                _worst(judged),
                str(len(of_all)),
                _median(abs(one.error) for one in of_all),
                _median((one.error for one in of_all), signed=True),
            ]
            lines.append(f"| {group} | {phase} | {' | '.join(cells)} |")
    return "\n".join(lines)


def orders(figures: Sequence[Figure]) -> str:
    """Rank correlations within a source."""
    lines = [
        f"Alternatives within a source, by GPU-seconds a token (target {RANK_TARGET}):",
        "",
        "| source and model | phase | rows | Spearman | Kendall |",
        "|---|---|---:|---:|---:|",
    ]
    found = ranked(figures)
    lines += [
        f"| {one.alternatives} | {one.phase} | {one.rows} | {one.spearman:.2f} "
        f"| {one.kendall:.2f} |"
        for one in found
    ]
    known = [(one.spearman, one.rows) for one in found if not np.isnan(one.spearman)]
    if known:
        mean = np.average([value for value, _ in known], weights=[count for _, count in known])
        lines.append(f"| all, weighted by rows | | {sum(one.rows for one in found)} "
                     f"| {mean:.2f} | |")
    return "\n".join(lines) if found else "No source has three alternatives."


def table(figures: Sequence[Figure]) -> str:
    """Every figure, by how far it is off."""
    lines = [
        "| row | phase | published | predicted | error | confidence | judged | lengths |",
        "|---|---|---:|---:|---:|---|---|---|",
    ]
    lines += [
        f"| {one.id} | {one.phase} | {one.published:.4g} | {one.predicted:.4g} "
        f"| {100 * one.error:+.1f} % | {one.confidence} | {'yes' if one.judged else ''} "
        f"| {'' if one.lengths else 'caps'} |"
        for one in sorted(figures, key=lambda one: -abs(np.log(1 + one.error)))
    ]
    assumed: dict[str, dict[str, str]] = {}
    for one in figures:
        assumed.setdefault(one.assumed, {})[one.id] = one.project
    lines += ["", "Planned as:", ""]
    lines += [f"- {words.rstrip('.')}: {_named(ids)}." for words, ids in assumed.items()]
    return "\n".join(lines)


def _named(projects: Mapping[str, str]) -> str:
    """Rows by name, or where they are many by project."""
    if len(projects) <= MOST_NAMED:
        return ", ".join(projects)
    counted = Counter(projects.values())
    return ", ".join(f"{count} rows of {project}" for project, count in counted.items())


def reasons(left: Iterable[Reason]) -> str:
    """Rows without a plan, counted by reason."""
    counted = Counter(one.words for one in left)
    lines = [f"Not planned: {counted.total()} rows.", "", "| rows | reason |", "|---:|---|"]
    return "\n".join(lines + [f"| {count} | {words} |" for words, count in counted.most_common()])


def _median(errors: Iterable[float], *, signed: bool = False) -> str:
    values = list(errors)
    if not values:
        return "none"
    return f"{100 * float(np.median(values)):{'+' if signed else ''}.1f} %"


def _worst(errors: Sequence[float]) -> str:
    return f"{100 * max(errors, key=abs):+.1f} %" if errors else "none"


CHANGED = """The model had been changed since the first scoring, and the half was scored again, as
a whole: on 2026-11-25 (judged: dense updates 22.8 % at the median of 20, mixtures 15.6 % of 5), on
2026-11-26 (10.4 % of 16, 27.5 % of 5), and once more on {scored}. Nothing was fitted to rows of
this half. We knew from the first scoring that a run on Blackwell was predicted too fast, and added
published kernel benchmarks (FlashAttention-2 on Blackwell). Between the second and the third
scoring, rows came to be planned with the attention that their settings name: FlashAttention-3 as
itself instead of FlashAttention-2, and FlashAttention-4 not at all, because no plan has it; the new
figure of one row was seen after that scoring. Before the last scoring, the host's launches in
training, FSDP2's hooks and an update's tensors got values measured on an H200, without use of a
published second, and later that day norms, activations and launches came to be counted on each
family's own layer, in place of Llama's, again without a published second. (For an hour, attention
under a mask used another kernel's rates by mistake; this was reverted without a look at any row.)
Of this half only the medians below were seen. Nothing has changed since: a test compares the
recorded figures with what today's model predicts."""

INTRODUCTION = """{rows} published timings of others (`accuracy/timings/times.json`, with
sources), split by project before the first was compared (`accuracy/timings/split.py`): one half
was looked at while the time model was built, the other was scored once. Nothing is fitted to
either half. *Judged* are figures of high confidence whose source states what decides the time and
whose lengths are known; the others are approximations whose assumptions stand below each table.
Errors are predicted over published seconds, less one. For a training run without rollouts the
published time is that of an update. A rate published without seconds is converted to seconds of a
step; rates are also compared directly (there an error above zero means too fast). Sources state
seconds, tokens a second or MFU, and for MFU they count attention in full or by half."""
