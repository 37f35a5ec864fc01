"""The answer first: one sentence, the figures beside it, and what decides it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from planner.comparison import DOES_NOT_RUN, why_not
from planner.cost import Cost, reference_words
from planner.footprint import Footprint, Phase, Verdict, Word, training_of
from planner.methods import method_of
from planner.plan import Plan
from planner.plan.chosen import differences
from planner.plan.labels import model_name, whole_subject
from planner.throughput import throughput
from planner.ui import compute
from planner.ui.elements import COLORS, ICONS, TONES, bullets, card, cards, said, tell
from planner.ui.state import session
from planner.ui.tables import phase_name
from planner.units import read_count, read_seconds, read_seconds_bounds, read_usd, read_usd_bounds
from planner.wording.display import UNKNOWN, interval, percent, plain
from planner.wording.fields import labelled

SHOWN_CATEGORIES = 3
UNKNOWABLE = (
    "nobody can know exactly what the driver, libraries and CUDA graphs take, and what the "
    "allocator holds unused"
)


def sentence(footprint: Footprint) -> None:
    """What is assumed, then the headline with an icon and a colour, then every limit and fault.

    It says whose it is while an input is wrong. The headline stays in sight while the page is
    scrolled; a narrow window keeps its short form there.
    """
    verdict = footprint.verdict
    with st.container(key="verdict-short"):
        short(footprint)
    for each in footprint.assumptions:
        st.markdown(f":material/info: {said(each)}.")
    with st.container(key="verdict"):
        if session.answers_another():
            tell("neutral", f"Still showing the last plan that works: {verdict.sentence}")
        else:
            tell(TONES[verdict.said], verdict.sentence)
        about = plain(whole_subject(footprint.plan))
        about = f"The rest: {about}" if verdict.incomplete else about
        st.caption(f"{basis(footprint.plan)}  \n{about}")
    _limits(verdict)


def basis(plan: Plan) -> str:
    """A badge: which rung the figures rest on, and what the closed form alone says."""
    base = compute.counted_from(plan)
    if base is None:
        checks = " Its dry run is of another loss or layout, so it only checks."
        return (
            ":gray-badge[:material/function: Closed form]"
            f"{checks if compute.dry_run(plan) is not None else ''}"
        )
    closed = f"Closed form: {session.read(compute.footprint(plan).device_bytes)}."
    if base.footprint.plan == plan:
        return f":blue-badge[:material/done_all: Dry run] {closed}"
    count = read_count(len(differences(dict(base.footprint.plan), dict(plan))), "setting")
    told = f"Dry run of the plan before {count} changed, and the closed form's difference."
    return f":orange-badge[:material/history: Counted from a dry run] {told} {closed}"


def _limits(verdict: Verdict) -> None:
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
    lead, unit = why_not(footprint), session.unit()
    part, word = footprint.verdict.incomplete, footprint.verdict.said
    peak, card = unit.value(footprint.device_bytes), session.read(footprint.budget_bytes)
    badge = f":{COLORS[word]}-badge[:material/{ICONS[word]}: {lead[0].upper()}{lead[1:]}]"
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
    places = cards(6, 105)
    card(
        places,
        "GPU peak",
        session.read(footprint.device_bytes),
        f"{percent(footprint.device_bytes / footprint.budget_bytes)} of card",
        "What the driver sees at the worst moment: PyTorch's reserved memory, the CUDA "
        "context and whatever sits beside it. The card has "
        f"{session.read(footprint.budget_bytes)}, as the driver reports it.",
        "off" if session.answers_another() else COLORS[footprint.verdict.said],
    )
    card(
        places.cell(column_span=2),
        "Worst phase",
        phase_name(worst),
        worst.instant,
        "A step is a row of phases; the one with the highest peak decides.",
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
        "Operations and bytes against the card's peak rates (a roofline), at the share of them "
        f"that was measured: {footprint.seconds_source}. {_doubt(footprint)}",
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
        "Of one node, the most of any phase: loading, offloading and checkpoint saving take "
        "memory of the node, not of the GPU. What the driver and torch's CUDA build take of it in "
        "each process is published between two ends.",
    )


def rests_on(footprint: Footprint, cost: Cost) -> None:
    """Below the figures: how sure the peak is, and whose price the money is at."""
    error = footprint.error
    known = f"{interval(error.low, error.high)}; " if error.low is not None else ""
    span = ""
    if footprint.low_bytes < footprint.high_bytes:
        ends = ([getattr(p, f"{end}_bytes") for p in footprint.phases] for end in ("least", "most"))
        least, most = (session.read(max(sizes)) for sizes in ends)
        span = f"The peak is between {least} and {most}: {UNKNOWABLE}. "
    runs = footprint.priced
    price = f"  \n{_price_line(cost)}" if runs else ""
    st.caption(f"{span}Error of the peak: {known}{error.source.rstrip('.')}.{price}")


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
    return "" if footprint.doubt is None else f"The interval: {footprint.doubt.words}"


def _price_line(cost: Cost) -> str:
    if cost.price_per_gpu_hour is None:
        return "Price: nobody has listed one for this card; type yours under Time and money."
    per_hour = f"Price: {read_usd(cost.price_per_gpu_hour)} per GPU-hour"
    if not cost.price_date:
        return f"{per_hour}, typed in."
    old = " :orange-badge[older than 60 days]" if cost.price_is_old else ""
    return f"{per_hour}, middle of the list prices of {cost.price_date}.{old}"


def _price(cost: Cost) -> str:
    if cost.price_per_gpu_hour is None:
        return "Nobody's price for this card is known; type one in under Time and money."
    old = " **Older than 60 days; check it.**" if cost.price_is_old else ""
    return (
        f"{read_usd(cost.price_per_gpu_hour)} per GPU-hour, {cost.price_source} "
        f"({cost.price_date}).{old} GPU hours only; storage and traffic are not counted."
    )


def what_decides(footprint: Footprint) -> None:
    """What fills the card at the worst moment: its largest categories and their largest terms."""
    worst = footprint.worst
    sums = sorted(worst.by_category().items(), key=lambda row: -row[1])[:SHOWN_CATEGORIES]
    parts = [
        f"**{category}** {session.read(size)} ({percent(size / worst.device_bytes)}"
        f"{_largest(worst, category, size)})"
        for category, size in sums
    ]
    others = [phase for phase in footprint.phases if phase is not worst]
    ranked = sorted(others, key=lambda phase: -phase.device_bytes)[:1]
    runner = "".join(
        f" The next phase, {phase_name(second)}, needs {session.read(second.device_bytes)}."
        for second in ranked
    )
    st.markdown(
        f"**What decides it.** At the worst moment ({worst.instant}): {'; '.join(parts)}.{runner}"
    )


def _largest(phase: Phase, category: str, size: int) -> str:
    """The term that is most of a category, unless the category is that term alone."""
    own = [term for term in phase.terms if term.category == category and not term.host]
    first = max(own, key=lambda term: int(term.bytes))
    share = "" if int(first.bytes) == size else f"of it {session.read(int(first.bytes))} "
    return f", {share}{first.name} of the {first.role}"


def cached_reference(footprint: Footprint, cost: Cost) -> None:
    """What a cached reference costs that the peak does not show; nothing where there is none."""
    words = reference_words(footprint, cost)
    if words:
        st.markdown(f"**What the cached reference costs.** {words}".replace("$", r"\$"))


def cautions(footprint: Footprint) -> None:
    """Warnings, and what was understood."""
    for text in footprint.warnings:
        st.warning(labelled(text), icon=":material/info:")
    longest = compute.longest_responses(footprint.plan)
    if longest:
        st.markdown(f"**The longest responses.** {longest}")


def assumes(footprint: Footprint) -> None:
    """What the estimate takes for granted, folded."""
    if footprint.notes:
        with st.expander("What this estimate assumes", icon=":material/notes:", key="assumes"):
            bullets(footprint.notes, escape=False)
