"""``python -m planner advise PLAN``: what makes it fit, what its room buys, what does nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from planner.advice import cards
from planner.advice.advice import Advice
from planner.advice.idle import together
from planner.advice.outcome import Outcome
from planner.advice.suggestion import Suggestion
from planner.cli import plan_argument
from planner.cli.answer import may_be_json, own_comparisons, show, table
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.launch.export import in_the_way
from planner.plan import Plan
from planner.plan.facts import holding
from planner.plan.query import CALIBRATION
from planner.speeds import Speeds
from planner.units import read_bytes, read_seconds_between, read_usd_between

SHOWN = 6


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    parser.add_argument(
        "--gpus",
        action="store_true",
        help="also list every GPU of the catalog, by how many of them it takes",
    )
    parser.add_argument(
        "--mend",
        action="store_true",
        help="with --gpus: also try to make the plan fit where it is out of memory; takes seconds",
    )
    may_be_json(parser, "all advice as JSON, in bytes and seconds")


def run(arguments: argparse.Namespace) -> int:
    """Prints the advice, judged by the errors that measurements state as ``estimate`` is."""
    asked = plan_argument.require_asked(arguments.plan, arguments.model)
    plan_argument.for_estimates(asked, CALIBRATION)
    judge = _judge(asked.benchmark, asked.plan.method)
    footprint = judge(asked.plan)
    advice = Advice(footprint, judge, refused=in_the_way)
    found = _choices(footprint, asked.benchmark) if arguments.gpus else ()
    if arguments.mend:
        instead = cards.mended(asked.plan, found, judge, in_the_way)
        found = tuple({(one.gpu, one.gpus): one for one in (*found, *instead)}.values())
    return show(arguments, (advice, found), _json, _text)


def _judge(benchmark: Speeds | None, method: str) -> Any:
    from planner.trial.evidence.stated_error import stated

    known = own_comparisons(method)

    def judge(plan: Plan) -> Footprint:
        return stated(estimate(plan, holding(benchmark, plan)), known)

    return judge


def _choices(footprint: Footprint, benchmark: Speeds | None) -> tuple[cards.Choice, ...]:
    from planner.trial.evidence.stated_sweep import stated_sweep

    known = own_comparisons(footprint.plan.method)
    return cards.choices(
        footprint.plan,
        benchmark,
        judged=lambda table, base: stated_sweep(table, estimate(base), known),
    )


Found = tuple[Advice, tuple[cards.Choice, ...]]


def _text(found: Found) -> str:
    advice, choices = found
    outcome = advice.outcome
    said = "incomplete" if outcome.incomplete else outcome.word
    lines = [
        f"{said[0].upper()}{said[1:]}: {read_bytes(outcome.device_bytes)} of "
        f"{read_bytes(outcome.budget_bytes)}, worst phase: {outcome.worst}.",
        *(f"blocked: {each}" for each in outcome.blockers),
        *filter(None, [advice.share_words(read_bytes)]),
        *_block("Make it fit", advice.ways),
        *_block("Single changes", advice.singles[:SHOWN]),
        *_block("Two changes together", advice.pairs),
        *_block(f"What lowers {outcome.worst}", (), advice.lowering(outcome.worst)[:SHOWN]),
    ]
    if outcome.fits:
        lines += [
            *_block("Use the free memory", [] if advice.used is None else [advice.used]),
            *_block("Each of them", advice.faster[:SHOWN]),
            *_block("Fewer GPUs", advice.cheaper),
        ]
    if advice.idle:
        idle = (f"  {said[0].upper()}{said[1:]}: {why}." for said, why in together(advice.idle))
        lines += ["", "No effect on the peak here:", *idle]
    if choices:
        lines += ["", *_gpus(choices)]
    return "\n".join(lines)


def _block(
    title: str, found: Iterable[Suggestion], lowering: Iterable[Suggestion] = ()
) -> Iterator[str]:
    said = [f"  {one.title}: {one.sentence}{f' ({one.cost})' if one.cost else ''}" for one in found]
    for one in lowering:
        saved = read_bytes(one.lowered_bytes(one.before.worst))
        said.append(f"  {one.title}: {saved} less there, {one.time_words}")
    if said:
        yield from ("", f"{title}:", *said)


def _gpus(choices: Iterable[cards.Choice]) -> list[str]:
    rows = [
        (
            one.gpu,
            str(one.gpus),
            one.word,
            "" if one.device_bytes is None else read_bytes(one.device_bytes),
            "" if one.budget_bytes is None else read_bytes(one.budget_bytes),
            _between(read_seconds_between, one.step_seconds, one.low_seconds, one.high_seconds),
            _between(read_usd_between, one.usd_run, one.low_usd, one.high_usd),
            one.mended,
        )
        for one in choices
        if one.word not in ("out of memory", "impossible")
    ]
    header = ("GPU", "count", "verdict", "peak", "card", "step", "cost of run", "mended by")
    return table(header, rows, right=(1, 3, 4, 5, 6)).splitlines()


def _between(read: Any, value: float | None, *ends: float | None) -> str:
    return "?" if value is None else read(value, *ends)


def _json(found: Found) -> dict[str, Any]:
    advice, choices = found
    outcome = advice.outcome
    fits = outcome.fits
    return {
        "plan": outcome.plan.model_dump(),
        "now": _outcome(outcome),
        "engine_share": advice.share_words(read_bytes) or None,
        "make_it_fit": [_suggestion(one) for one in advice.ways],
        "singles": [_suggestion(one) for one in advice.singles],
        "pairs": [_suggestion(one) for one in advice.pairs],
        "use_the_room": _suggestion(advice.used) if fits and advice.used else None,
        "faster": [_suggestion(one) for one in advice.faster] if fits else [],
        "cheaper": [_suggestion(one) for one in advice.cheaper] if fits else [],
        "does_nothing": [
            {"title": one.title, "on": one.on, "why": one.reason} for one in advice.idle
        ],
        "gpus": [one._asdict() for one in choices],
    }


def _suggestion(one: Suggestion) -> dict[str, Any]:
    return {
        "title": one.title,
        "changes": dict(one.changes),
        "costs": one.cost or None,
        "saved_bytes": one.saved_bytes,
        "seconds": {"by": one.seconds_lost, "beyond_the_error": one.seconds.sure},
        "after": _outcome(one.after),
        "phases": [
            {
                "name": phase.name,
                "before_bytes": phase.before and phase.before.device_bytes,
                "after_bytes": phase.after and phase.after.device_bytes,
                "before_seconds": phase.before and phase.before.seconds,
                "after_seconds": phase.after and phase.after.seconds,
            }
            for phase in one.phases()
        ],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "verdict": outcome.word,
        "incomplete": outcome.incomplete,
        "blockers": list(outcome.blockers),
        "device_bytes": outcome.device_bytes,
        "budget_bytes": outcome.budget_bytes,
        "host_bytes": outcome.host_bytes,
        "worst_phase": outcome.worst,
        "seconds": outcome.step_seconds,
        "low_seconds": outcome.low_seconds,
        "high_seconds": outcome.high_seconds,
        "usd_run": outcome.usd_run,
    }
