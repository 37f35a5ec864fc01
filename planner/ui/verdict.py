"""The answer first: one sentence, the figures below it, and what sets the peak."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from planner.comparison import DOES_NOT_RUN, why_not
from planner.cost import Cost, reference_words
from planner.footprint import Footprint, Phase, Verdict, Word, training_of
from planner.launch.export import refused
from planner.phases import engine
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.labels import model_name, whole_subject
from planner.plan.methods import method_of
from planner.throughput import throughput
from planner.trial.evidence.correction import LEFT
from planner.ui import compute
from planner.ui.elements import COLORS, ICONS, TONES, bullets, card, cards, said, tell
from planner.ui.gauge import used_of
from planner.ui.state import session
from planner.ui.tables import phase_name
from planner.units import read_count, read_seconds, read_seconds_bounds, read_usd, read_usd_bounds
from planner.wording import choices
from planner.wording.display import UNKNOWN, interval, kind_of, percent, plain
from planner.wording.fields import labelled, short_label

SHOWN_CATEGORIES = 3
VARY = "Range: driver, CUDA graphs and allocator fragmentation vary."


def sentence(footprint: Footprint) -> None:
    """What is assumed, then the headline with an icon and a colour, then every limit and fault."""
    with st.container(key="verdict-short"):
        short(footprint)
    headline(footprint)
    limits(footprint.verdict)


def headline(footprint: Footprint) -> None:
    """What is assumed, then the verdict, in colour, and of which plan it is.

    It says whose it is while an input is wrong. It stays in sight while the page is scrolled; a
    narrow window keeps its short form there.
    """
    used = used_of(footprint)
    for each in footprint.assumptions:
        st.markdown(f":material/info: {said(f'{each[0].upper()}{each[1:]}')}.")
    with st.container(key="verdict"):
        if session.answers_another():
            tell("neutral", f"Still showing the last plan that works: {used.sentence}")
        else:
            tell(TONES[used.word], used.sentence)
        about = plain(whole_subject(footprint.plan))
        about = f"The rest: {about}" if footprint.verdict.incomplete else about
        st.caption(f"{basis(footprint)}  \n{about}")


def basis(footprint: Footprint) -> str:
    """A badge: which rung the figures rest on, and what the closed form alone says."""
    plan, base = footprint.plan, compute.counted_from(footprint.plan)
    if footprint.error == LEFT:
        before = session.read(compute.uncorrected(plan).device_bytes)
        return f":violet-badge[:material/speed: Corrected by trials] Without them: {before}."
    if base is None:
        checks = " The plan's dry run is of another loss or layout, so it serves only as a check."
        return (
            ":gray-badge[:material/function: Closed form]"
            f"{checks if compute.dry_run(plan) is not None else ''}"
        )
    closed = f"Closed form: {session.read(compute.footprint(plan).device_bytes)}."
    if base.footprint.plan == plan:
        return f":blue-badge[:material/done_all: Dry run] {closed}"
    count = read_count(len(differences(dict(base.footprint.plan), dict(plan))), "setting")
    told = (
        f"Dry run of the plan before {count} changed, plus the closed form's difference for that "
        "change."
    )
    return f":orange-badge[:material/history: Counted from a dry run] {told} {closed}"


def limits(verdict: Verdict) -> None:
    """Every other limit and fault, each with the sign of its own word."""
    # Of the rest of a plan nothing is called good.
    signed = () if verdict.incomplete else verdict.limits
    words = {limit.sentence: limit.word for limit in signed}
    lines = [f"{_sign(words.get(line))}{said(line)}" for line in verdict.lines]
    if lines:
        with st.container(key="limits"):
            st.caption("  \n".join(lines))


def _sign(word: Word | None) -> str:
    """Nothing where a line is no limit's."""
    return "" if word is None else f":{COLORS[word]}[:material/{ICONS[word]}:] "


def short(footprint: Footprint) -> None:
    """The verdict in a line, for a window that has room for no more."""
    lead, unit, used = why_not(footprint), session.unit(), used_of(footprint)
    part = footprint.verdict.incomplete
    peak, card = unit.value(used.device_bytes), session.read(used.budget_bytes)
    color, icon = COLORS[used.word], ICONS[used.word]
    badge = f":{color}-badge[:material/{icon}: {lead[0].upper()}{lead[1:]}]"
    if session.answers_another():
        badge = ":gray-badge[:material/info: The last plan that works]"
    needs = ""
    if footprint.pool is not None and not part:
        training_bytes = training_of(footprint.phases).training_bytes
        needs = f" · training {unit.value(training_bytes):,.1f}"
    subject = f"{method_of(footprint.plan).title} of {model_name(footprint.plan)}"
    of = "" if part else f" **{peak:,.1f}** of {card}{needs}"
    st.markdown(f"{badge}{of}  \n:small[{plain(subject)}]")


def none_yet() -> None:
    """In place of that line while the inputs make no plan."""
    badge = ":gray-badge[:material/block: No plan yet]"
    st.markdown(f"{badge}  \n:small[The page says what these inputs lack.]")


def figures(footprint: Footprint, cost: Cost) -> None:
    """The row of metrics."""
    worst = footprint.worst
    runs = footprint.priced
    unknown = UNKNOWN if runs else "—"
    figures = throughput(footprint, cost)
    usd = figures.get("usd_run")
    used = used_of(footprint)
    places = cards(3, 105)
    card(
        places,
        "GPU peak",
        session.read(used.device_bytes),
        f"{percent(used.share)} of GPU",
        "Memory that nvidia-smi shows at the peak: PyTorch's reserved memory, the CUDA context, "
        f"NCCL and vLLM. The GPU has {session.read(used.budget_bytes)}, as the driver reports it.",
        "off" if session.answers_another() else COLORS[used.word],
    )
    card(
        places.cell(column_span=2),
        "Worst phase",
        phase_name(worst),
        worst.instant,
        "The phase of a step with the highest peak, and the moment of that peak.",
    )
    seconds = footprint.step_seconds if runs else None
    card(
        places,
        "Step time",
        f"≈ {read_seconds(seconds)}" if seconds is not None else unknown,
        _below(
            footprint,
            footprint.low_seconds,
            footprint.high_seconds,
            partial(read_seconds_bounds, seconds or 0.0),
        ),
        "A roofline: FLOPs and bytes at the measured share of the GPU's peak rates: "
        f"{footprint.seconds_source}. {_doubt(footprint)}",
    )
    card(
        places,
        "Cost of run",
        f"≈ {read_usd(cost.usd_run)}" if cost.usd_run is not None else unknown,
        _below(footprint, usd and usd.low, usd and usd.high, read_usd_bounds),
        f"{_price(cost)} {_doubt(footprint)}",
    )
    card(
        places,
        "Host RAM",
        session.read(footprint.host_bytes),
        _per_node(footprint),
        "The most host RAM that one node needs in any phase, for loading, offloading and saving "
        "checkpoints. The range comes from what the driver and PyTorch take in each process.",
    )


def rests_on(footprint: Footprint) -> None:
    """How sure the peak is; where nobody measured it, a line above the headline says so."""
    error = footprint.error
    parts = [VARY] if footprint.low_bytes < footprint.high_bytes else []
    if error.low is not None:
        parts.append(f"Error of the peak: {interval(error.low, error.high)}; {error.source}")
    if parts:
        st.caption(" ".join(parts))


def _below(
    footprint: Footprint,
    low: float | None,
    high: float | None,
    read: Callable[[float, float], str],
) -> str:
    """An interval below its figure, or why there is none."""
    if not footprint.priced:
        return footprint.verdict.said if footprint.verdict.incomplete else DOES_NOT_RUN
    return UNKNOWN if low is None or high is None else read(low, high)


def _per_node(footprint: Footprint) -> str:
    least, most = footprint.host_low_bytes, footprint.host_high_bytes
    if least is None or most is None or least == most:
        return "per node"
    unit = session.unit()
    digits = 0 if unit.value(most) >= 100 else 1
    return "–".join(f"{unit.value(end):,.{digits}f}" for end in (least, most))


def _doubt(footprint: Footprint) -> str:
    return "" if footprint.doubt is None else f"The range: {footprint.doubt.words}"


def price(footprint: Footprint, cost: Cost) -> None:
    """At whose price the money is; nothing where the plan has none."""
    if not footprint.priced:
        return
    if cost.price_per_gpu_hour is None:
        st.caption("Nobody lists a price for this GPU; type yours under Time and money.")
        return
    per_hour = f"Price: {read_usd(cost.price_per_gpu_hour)} per GPU-hour".replace("$", r"\$")
    if not cost.price_date:
        st.caption(f"{per_hour}, as you typed it.")
        return
    old = " :orange-badge[older than 60 days]" if cost.price_is_old else ""
    st.caption(f"{per_hour}, median list price of {cost.price_date}.{old}")


def _price(cost: Cost) -> str:
    if cost.price_per_gpu_hour is None:
        return "Nobody lists a price for this GPU; type yours under Time and money."
    old = " **Older than 60 days; check it.**" if cost.price_is_old else ""
    return (
        f"{read_usd(cost.price_per_gpu_hour)} per GPU-hour, {cost.price_source} "
        f"({cost.price_date}).{old} GPU-hours only: no storage, no traffic."
    )


def what_sets(footprint: Footprint, phase: Phase) -> None:
    """What fills the GPU at a phase's peak: its largest categories and their largest terms."""
    worst = phase is footprint.worst
    st.subheader(
        "What sets the peak" if worst else f"What fills {phase_name(phase)}", anchor="peak"
    )
    sums = sorted(phase.by_category().items(), key=lambda row: -row[1])[:SHOWN_CATEGORIES]
    parts = [
        f"- **{kind_of(category)}** {session.read(size)} ({percent(size / phase.device_bytes)})"
        f"{_largest(phase, category, size)}"
        for category, size in sums
    ]
    others = [one for one in footprint.phases if one is not phase]
    ranked = sorted(others, key=lambda one: -one.device_bytes)[:1]
    runner = "".join(
        f"Next highest: {phase_name(second)}, {session.read(second.device_bytes)}."
        for second in ranked
        if worst
    )
    lead = f"{phase_name(phase)}, {phase.instant}: {session.read(phase.device_bytes)}"
    st.markdown("\n".join([f"{lead[0].upper()}{lead[1:]}", "", *parts, "", runner]))


def _largest(phase: Phase, category: str, size: int) -> str:
    """The term that is most of a category."""
    own = [term for term in phase.terms if term.category == category and not term.host]
    first = max(own, key=lambda term: int(term.bytes))
    part = "" if int(first.bytes) == size else f" {session.read(int(first.bytes))}"
    of = "" if first.role in ("process", engine.ROLE) else f" of the {first.role}"
    return f": {first.name}{of}{part}"


def cached_reference(footprint: Footprint, cost: Cost) -> None:
    """What a cached reference costs that the peak does not show; nothing where there is none."""
    words = reference_words(footprint, cost)
    if words:
        st.markdown(f"**Cost of the cached reference.** {words}".replace("$", r"\$"))


def cautions(footprint: Footprint) -> None:
    """Warnings, and what was understood."""
    for text in footprint.warnings:
        st.warning(labelled(text), icon=":material/info:")
    _not_launched(footprint.plan)
    longest = compute.longest_responses(footprint.plan)
    if longest:
        st.markdown(f"**Longest response.** {longest}")


def _not_launched(plan: Plan) -> None:
    """Fields for which Launch will write no script as the plan is, before anyone goes there."""
    found = refused(plan, session.draft().chosen)
    if found:
        fields = ", ".join(dict.fromkeys(short_label(one.field) for one in found))
        name = choices.name("framework", plan.framework)
        st.caption(
            f":material/rocket_launch: Launch writes no {name} script for this plan as it is: "
            f"{fields}. What to do stands there."
        )


def assumes(footprint: Footprint) -> None:
    """What the estimate takes for granted, folded."""
    if footprint.notes:
        with st.expander("What this estimate assumes", icon=":material/notes:", key="assumes"):
            bullets(footprint.notes, escape=False)
