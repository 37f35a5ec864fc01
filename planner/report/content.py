"""What stands on a plan's report, as text: recommendation, evidence, phases, money, settings.

Every list is cut to what one page holds, and says how much it left out. Nothing here is HTML, and
nothing is escaped yet.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.comparison import between_seconds, why_not
from planner.cost import Cost, between_words, cost, price_words, reference_words
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.finding import SMALL
from planner.footprint import Footprint, training_of
from planner.plan import FIELDS, Plan
from planner.plan.chosen import chosen_fields
from planner.plan.facts import facts_of
from planner.plan.labels import subject
from planner.plan.length_words import prompts, words
from planner.plan.relevance import without_effect
from planner.report.recommended import Recommended, recommended
from planner.search import Found
from planner.search.wish import GOALS
from planner.throughput import read_figure, read_run, throughput
from planner.trial.ask.footprints import FootprintFigures
from planner.trial.ask.result import TrialResult
from planner.units import read_gib, read_seconds, read_usd
from planner.wording.choices import spoken
from planner.wording.fields import labelled, short_label

ALWAYS = (
    *("model", "method", "framework", "finetuning", "prompt_tokens", "response_tokens"),
    *("prompts_per_step", "responses_per_prompt", "prompts_per_update", "micro_batch_size"),
    *("dtype", "optimizer", "sharding", "gradient_checkpointing", "rollout", "steps"),
)
"""Settings that a reader looks for, whether or not somebody chose them."""
MOST_SETTINGS = 24
MOST_PHASES = 13
MOST_DOUBTS = 3
MOST_ADVICE = 3
LONGEST = 160
"""Characters of a sentence on the page."""
MOST_LINES = 6
LONGEST_LINE = 280
"""Of what stands beside the headline: a limit's line ends with its fix."""
LONGEST_TITLE = 90
LONGEST_VALUE = 30
LONGEST_CHANGES = 120
FULL = 64
"""Lines and halves of lines that stand on a page in letters of usual size."""


class Advice(NamedTuple):
    """A change that is worth a thought, and what it does."""

    title: str
    effect: str


class Evidence(NamedTuple):
    """One rung: what it says, or that nobody asked it."""

    rung: str
    verdict: str
    peak: str
    step: str
    rests_on: str


class Bar(NamedTuple):
    """A phase: its peak in words and as shares of the widest, and its time."""

    phase: str
    own: float
    pool: float
    peak: str
    time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The page, top to bottom."""

    title: str
    where: str
    word: str
    assumed: tuple[str, ...]
    verdict: str
    lines: tuple[str, ...]
    """Every other limit and fault that is known."""
    recommendation: str
    figures: tuple[tuple[str, str, str], ...]
    """Label, figure and the line below it."""
    evidence: tuple[Evidence, ...]
    bars: tuple[Bar, ...]
    card: float
    """Where the card ends, as a share of the widest bar."""
    card_words: str
    advice: tuple[Advice, ...]
    goal: str
    """What was searched for; empty where nobody searched."""
    recommended: tuple[Recommended, ...]
    money: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    doubts: tuple[str, ...]
    link: str
    made: str

    @property
    def dense(self) -> bool:
        """Whether it is so much that one page needs smaller letters."""
        sentences = len(self.doubts) + len(self.advice) + len(self.money)
        sentences += len(self.lines) // 2 + len(self.assumed)
        sentences += 2 * len(self.recommended)
        return 2 * len(self.bars) + 2 * sentences + len(self.settings) > FULL


def content_of(
    footprint: Footprint,
    *,
    made: dt.date,
    dry_run: DryRun | None = None,
    trial: TrialResult | None = None,
    advice: Sequence[Advice] = (),
    search: Found | None = None,
    link: str = "",
) -> Content:
    """The report of an estimate, and of what else is known of its plan.

    Args:
        footprint: the estimate, with the error that measurements state.
        made: the day that it is made.
        dry_run: of the same plan, if there is one.
        trial: of the same plan, if there is one.
        advice: changes worth a thought, the best first.
        search: what a search from the plan found, or one that recommends it.
        link: to the plan.
    """
    plan: Plan = footprint.plan
    paid = cost(footprint, today=made)
    widest = max(footprint.budget_bytes, footprint.device_bytes)
    return Content(
        title=cut(subject(plan), LONGEST_TITLE),
        where=f"{plan.gpus:,} × {facts_of(plan).gpu.name}",
        word=why_not(footprint),
        assumed=_some([f"{each}." for each in footprint.assumptions], MOST_LINES, LONGEST_LINE),
        verdict=labelled(footprint.verdict.sentence),
        lines=_some(footprint.verdict.lines, MOST_LINES, LONGEST_LINE),
        recommendation=recommendation(footprint, dry_run, trial),
        figures=tuple(_figures(footprint, paid)),
        evidence=(_estimated(footprint), _dry_run(footprint, dry_run), _trial(trial)),
        bars=tuple(_bars(footprint, widest)),
        card=footprint.budget_bytes / widest,
        card_words=f"{_gib(footprint.budget_bytes)} of the GPU, as its driver reports it",
        advice=tuple(
            Advice(cut(one.title, LONGEST_TITLE), cut(one.effect, LONGEST_TITLE))
            for one in advice[:MOST_ADVICE]
        ),
        goal=GOALS[search.wish.goal].label if search else "",
        recommended=tuple(
            one._replace(changes=cut(one.changes, LONGEST_CHANGES))
            for one in (recommended(plan, search) if search else ())
        ),
        money=tuple(_money(footprint, paid)),
        settings=_settings(plan),
        doubts=_doubts(footprint, dry_run),
        link=link,
        made=made.isoformat(),
    )


def recommendation(
    footprint: Footprint, dry_run: DryRun | None = None, trial: TrialResult | None = None
) -> str:
    """What to do with the plan: what was measured counts before what was executed or estimated."""
    measured = _measured(footprint, trial)
    if measured == "out of memory":
        return "Do not launch as planned: a trial on this GPU ran out of memory."
    said = (("dry run", dry_run.footprint),) if dry_run else ()
    for rung, judged in (*said, ("estimate", footprint)):
        if judged.verdict.word == "out of memory":
            other = dry_run is not None and footprint.verdict.word != judged.verdict.word
            against = ", though the estimate says otherwise" if other else ""
            return f"Do not launch as planned: by the {rung}, the plan does not run{against}."
    judged = dry_run.footprint if dry_run else footprint
    known = " and a ".join(
        filter(None, ("dry run" if dry_run else "", "trial" if measured else ""))
    )
    if footprint.verdict.incomplete:
        return "No recommendation: a part of the plan is not modelled."
    if judged.verdict.word == "tight":
        first = "run a trial" if dry_run else "do a dry run and a trial"
        return f"It fits with little memory to spare: {first} before you launch the whole run."
    room = _gib(max(judged.budget_bytes - judged.device_bytes, 0))
    if known:
        agree = "agree" if " and " in known else "agrees"
        return f"Ready to launch: a {known} {agree}, and {room} of each GPU stay free."
    return (
        f"Ready to launch, by an estimate that leaves {room} of each GPU free. A dry run checks "
        "the estimate in seconds, without a GPU."
    )


def _measured(footprint: Footprint, trial: TrialResult | None) -> str:
    """The verdict's word of a trial on the plan's own card; one on another proves nothing of it."""
    if trial is None or trial.device.gpu != footprint.plan.gpu:
        return ""
    if trial.status in ("out of memory", "will not fit"):
        return "out of memory"
    verdict = trial.measured.verdict if trial.measured is not None else None
    return "" if verdict is None else verdict.word


def _figures(footprint: Footprint, paid: Cost) -> Iterator[tuple[str, str, str]]:
    runs = footprint.priced
    known = throughput(footprint, paid)
    share = footprint.device_bytes / footprint.budget_bytes
    yield "GPU peak", _gib(footprint.device_bytes), f"{share:.0%} of the card"
    training, pool = training_of(footprint.phases), footprint.pool
    below = training.name if pool is None else f"engine {_gib(pool.share_bytes)}"
    yield "Training needs", _gib(training.training_bytes), below
    step = between_seconds(footprint, footprint.step_seconds) if runs else "—"
    run = read_run(paid) if runs else why_not(footprint)
    yield "Step time", *_parted(step)
    yield f"{footprint.plan.steps:,} steps", *_parted(run)
    usd = read_figure(known["usd_run"]) if "usd_run" in known else "—"
    yield "Cost of run", *_parted(usd)
    host, least, most = footprint.host_bytes, footprint.host_low_bytes, footprint.host_high_bytes
    apart = least is not None and most is not None and least < most
    span = f"{read_gib(least or 0)}–{read_gib(most or 0)} " if apart else ""
    yield "Host RAM", "not known" if host is None else _gib(host), f"{span}per node"


def _parted(text: str) -> tuple[str, str]:
    """A figure and its interval."""
    figure, _, bounds = text.partition(" (")
    return figure, bounds.rstrip(")")


def _estimated(footprint: Footprint) -> Evidence:
    return Evidence(
        "Estimate",
        footprint.verdict.said,
        f"{_gib(footprint.device_bytes)} "
        f"({read_gib(footprint.low_bytes)}–{read_gib(footprint.high_bytes)})",
        "" if footprint.verdict.incomplete else between_seconds(footprint, footprint.step_seconds),
        cut(f"Closed form. Error of the peak: {footprint.error.source}"),
    )


def _dry_run(footprint: Footprint, found: DryRun | None) -> Evidence:
    if found is None:
        return Evidence("Dry run", "not done", "", "", "Runs the real step on fake tensors.")
    own = found.footprint
    differences = [one.difference for one in found.comparisons if one.difference is not None]
    furthest = max(differences, key=abs, default=None)
    agrees = "" if furthest is None else f"; {_agreement(furthest)}"
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    rests_on = cut(f"The real step on fake tensors ({versions}){agrees}")
    return Evidence("Dry run", own.verdict.word, _gib(own.device_bytes), "", rests_on)


def _agreement(furthest: float) -> str:
    """How far the estimate is from the dry run in the phase where it is furthest off."""
    if abs(furthest) <= SMALL:
        return "the estimate agrees within 0.1% in every phase"
    return f"the estimate is off by at most {furthest:+.1%}"


def _trial(found: TrialResult | None) -> Evidence:
    if found is None:
        return Evidence("Trial", "not done", "", "", "Runs a few real steps on the GPU.")
    measured = found.measured
    peaks = {} if measured is None else {level: _most(measured, level) for level in LEVELS}
    level, peak = next(((each, size) for each, size in peaks.items() if size), ("", 0))
    of = "" if level == "device_bytes" else f" {level.removesuffix('_bytes')}"
    seconds = None if measured is None else measured.seconds
    extrapolated = ", extrapolated from fewer layers" if found.extrapolated else ""
    return Evidence(
        "Trial",
        found.status,
        f"{_gib(peak)}{of}" if peak else "",
        "" if seconds is None else read_seconds(seconds),
        cut(f"{found.steps:,} steps on {found.where}, {found.created[:10]}{extrapolated}"),
    )


LEVELS = ("device_bytes", "reserved_bytes", "requested_bytes")
"""Totals that a trial may have measured, the most telling first."""


def _most(measured: FootprintFigures, level: str) -> int:
    """The most of any phase; 0 where nobody measured it."""
    return max((getattr(one, level) or 0 for one in measured.phases), default=0)


def _bars(footprint: Footprint, widest: int) -> Iterator[Bar]:
    phases = footprint.phases
    if len(phases) > MOST_PHASES:
        ranked = sorted(phases, key=lambda one: -one.device_bytes)[:MOST_PHASES]
        phases = tuple(one for one in phases if one in ranked)
    for phase in phases:
        own = phase.training_bytes
        yield Bar(
            phase.name if phase.rank == "trainer" else f"{phase.name} ({phase.rank} GPU)",
            own / widest,
            (phase.device_bytes - own) / widest,
            _gib(phase.device_bytes),
            "" if phase.seconds is None else read_seconds(phase.seconds),
        )


def _money(footprint: Footprint, paid: Cost) -> Iterator[str]:
    known = throughput(footprint, paid)
    if "usd_run" in known:
        steps, hours = footprint.plan.steps, read_figure(known["gpu_hours_run"])
        yield f"{read_figure(known['usd_run'])} for {steps:,} steps: {hours} GPU-hours."
    elif not footprint.priced:
        why = "is incomplete" if footprint.verdict.incomplete else "does not run"
        yield f"A plan that {why} has no cost."
    low, high = paid.price_low, paid.price_high
    range_ = f" ({read_usd(low)}–{read_usd(high)})" if low and high and low < high else ""
    yield cut(f"Price: {price_words(paid)}{range_}. GPU hours only, without storage or traffic.")
    if footprint.doubt is not None and known:
        yield cut(f"Between brackets: {footprint.doubt.words.partition('. ')[0]}")
        yield cut(f"Times assume {words(footprint.plan)}, after {prompts(footprint.plan)}.")
    for sentence in (between_words(footprint), reference_words(footprint, paid)):
        if sentence:
            yield cut(sentence)


def _settings(plan: Plan) -> tuple[tuple[str, str], ...]:
    idle = without_effect(plan)
    chosen = chosen_fields(plan.model_dump())
    named = [field for field in FIELDS if field in ALWAYS or field in chosen]
    rows = [
        (short_label(field), cut(spoken(field, getattr(plan, field)), LONGEST_VALUE))
        for field in (*ALWAYS, *(field for field in named if field not in ALWAYS))
        if field not in idle and getattr(plan, field) != "" and field not in NOT_SETTINGS
    ]
    more = len(rows) - MOST_SETTINGS
    return (*rows[:MOST_SETTINGS], *([("And", f"{more} more, in the link")] if more > 0 else []))


NOT_SETTINGS = ("config", "gpu", "gpus")
"""Said by their names at the top."""


def _doubts(footprint: Footprint, dry_run: DryRun | None) -> tuple[str, ...]:
    errors = () if dry_run is None else dry_run.errors
    return _some([*dict.fromkeys((*errors, *footprint.warnings))], MOST_DOUBTS)


def _some(texts: Sequence[str], most: int, longest: int = LONGEST) -> tuple[str, ...]:
    """The first of some sentences, and how many more there are."""
    more = len(texts) - most
    shown = [cut(labelled(one), longest) for one in texts[:most]]
    return (*shown, *([f"The Plan page lists {more} more."] if more > 0 else []))


def _gib(size_bytes: float) -> str:
    return f"{read_gib(size_bytes)} GiB"


def cut(text: str, most: int = LONGEST) -> str:
    """The beginning of a sentence that is too long, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
