"""``python -m planner recommend PLAN --goal cheapest``: the plans that meet a goal best."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from planner.catalog.card_names import card_key
from planner.catalog.offers import offers
from planner.cli import plan_argument
from planner.cli.answer import DOES_NOT_FIT, may_be_json, may_fail
from planner.plan.frameworks import exported, framework_named
from planner.plan.query import CALIBRATION, to_query_string
from planner.problem import PlanError, Problem
from planner.search import Found, Recommendation, search
from planner.search.options import priced
from planner.search.wish import GOALS, PLACEMENT, SEARCHED, USUAL, Wish, chosen_from, shopping

OPTIONS = {
    "max_gpus": "--max-gpus",
    "budget_usd": "--budget",
    "deadline_hours": "--deadline",
}
"""A wish's fields by what a command calls them, where it is another word."""
NO_PRICE = "The catalog has no provider's price for this GPU."
FILTERS = {
    "vendor": "only GPUs of this vendor, PLAN's included",
    "provider": "costs at this provider's cheapest listed price; GPUs it does not list are left "
    "out",
    "offer": "costs at the cheapest on-demand or spot price listed, not the middle of the range",
}


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    parser.add_argument("--goal", choices=GOALS, default="cheapest", help="how plans are ranked")
    parser.add_argument("--max-gpus", type=int, default=0, metavar="N", help="up to this many GPUs")
    parser.add_argument(
        "--cards",
        default="",
        metavar="KEY,KEY",
        help="GPUs to consider besides PLAN's, or 'any' with a listed price; 'any' is the default "
        "for goals about cost, time and GPUs, unless PLAN sets a GPU",
    )
    words = chosen_from()
    for name, text in FILTERS.items():
        parser.add_argument(f"--{name}", choices=words[name], default="", help=text)
    parser.add_argument("--budget", type=float, default=0.0, metavar="USD", help="for the run")
    parser.add_argument("--deadline", type=float, default=0.0, metavar="HOURS", help="for the run")
    parser.add_argument(
        "--lora", action="store_true", help="consider LoRA instead of full fine-tuning"
    )
    parser.add_argument("--separate", action="store_true", help="consider dedicated rollout GPUs")
    parser.add_argument(
        "--framework",
        choices=exported(),
        default="",
        help="the framework that launches the plans; otherwise PLAN's own, or the first with a "
        "launch script where PLAN's has none and PLAN does not set it",
    )
    parser.add_argument(
        "--free",
        default="",
        metavar="FIELDS",
        help=f"the only fields that may change, of {', '.join(SEARCHED)}; otherwise all of them "
        "that PLAN does not set, except response length, LoRA and dedicated rollout GPUs",
    )
    parser.add_argument(
        "--dry-run",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="check the recommended plan with a dry run, and the next one if it disagrees; seconds "
        "to minutes, no GPU (the default)",
    )
    may_be_json(parser)
    may_fail(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the recommendations; what PLAN sets stays as it is."""
    from planner.launch.export import scripted

    asked = plan_argument.require_asked(arguments.plan, arguments.model)
    plan_argument.for_estimates(asked, CALIBRATION)
    if not arguments.framework and not arguments.free:
        arguments.framework = scripted(asked.plan, asked.chosen)
    try:
        wish = _wish(arguments).keeping(() if arguments.free else asked.chosen)
    except ValueError as error:
        field, _, said = str(error).partition(": ")
        raise PlanError((Problem(OPTIONS.get(field, f"--{field}"), said, ""),)) from error
    found = search(asked.plan, wish, _told, speeds=asked.benchmark)
    if not arguments.json:
        print(_text(found), flush=True)
    if arguments.dry_run and found.recommendations:
        found = after_dry_runs(found)
        if not arguments.json:
            print(_outcome(found))
    if arguments.json:
        print(json.dumps(_json(found), indent=2))
    fits = any(one.checked != "demoted" for one in found.recommendations)
    return 0 if fits or arguments.exit_zero else DOES_NOT_FIT


def after_dry_runs(found: Found, execute: bool = True) -> Found:
    """The plan to take after its dry run, stored or executed now; what it says of it."""
    from planner.background import Refused
    from planner.dryrun.ask.port import Port
    from planner.search.check import checked, followed_up

    port = Port()

    def check(one: Recommendation) -> Recommendation:
        if not execute:
            stored = port.remembered(one.plan)
            return one if stored is None else checked(one, stored)
        if sys.stderr.isatty():
            print(f"Dry run of the {one.called} plan …", file=sys.stderr)
        try:
            return checked(one, port.run(one.plan))
        except Refused as error:
            return replace(one, reason=f"The dry run failed: {error}")

    try:
        return replace(found, recommendations=followed_up(found.recommendations, check))
    finally:
        port.close()


def _outcome(found: Found) -> str:
    """What dry runs came to, and the plan to take after them."""
    from planner.search.check import lead

    said = [
        f"{one.called}: {SAID[one.checked]}{f' {one.reason}' if one.reason else ''}"
        for one in found.recommendations
        if one.checked != "unchecked" or one.reason
    ]
    return "\n".join((*said, f"Take the {lead(found.recommendations).called} plan."))


SAID = {
    "agrees": "its dry run agrees.",
    "demoted": "its dry run disagrees.",
    "unchecked": "estimate only.",
}


def _wish(arguments: argparse.Namespace) -> Wish:
    free = _words(arguments.free) or (USUAL if arguments.cards else shopping(arguments.goal))
    cards = priced() if arguments.cards == "any" else map(card_key, _words(arguments.cards))
    return Wish(
        goal=arguments.goal,
        free=(*free, *PLACEMENT) if arguments.separate else free,
        max_gpus=arguments.max_gpus,
        cards=tuple(cards),
        budget_usd=arguments.budget,
        deadline_hours=arguments.deadline,
        lora_allowed=arguments.lora,
        framework=arguments.framework,
        **{name: getattr(arguments, name) for name in FILTERS},
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _told(doing: str, share: float) -> None:
    if sys.stderr.isatty():
        print(f"{doing} … {share:.0%}", end="\r", file=sys.stderr)


def _json(found: Found) -> dict[str, Any]:
    from planner.throughput import answer_json

    return {
        "recommendations": [
            {
                "name": one.name,
                "also": list(one.also),
                "plan": one.plan.model_dump(),
                "footprint": answer_json(one.footprint),
                "why": one.why,
                "differences": [asdict(change) for change in one.differences],
                "trade_offs": list(one.trade_offs),
                "launch": one.launch,
                "prices": [offer.model_dump() for offer in offers(one.plan.gpu)],
                "checked": one.checked,
                "reason": one.reason,
            }
            for one in found.recommendations
        ],
        "same": found.same,
        "knee": found.knee,
        "front": [asdict(point) for point in found.front],
        "ties": [asdict(tie) for tie in found.ties],
        "misses": [asdict(miss) for miss in found.misses],
        "left_out": list(found.left_out),
        "judged": asdict(found.judged),
    }


def _text(found: Found) -> str:
    lines: list[str] = []
    framework, own = found.wish.framework, found.plan.framework
    if framework and framework != own:
        lines += [
            f"These plans are for {framework_named(framework).label}: "
            f"{framework_named(own).label} has no launch script for the plan you gave. Use "
            f"--framework {own} to keep it anyway.",
            "",
        ]
    for one in found.recommendations:
        changes = [
            f"  {change.field}: {change.before} -> {change.after}" for change in one.differences
        ]
        lines += [
            f"{one.called}: {one.footprint.verdict.said}",
            f"  {one.why}",
            *(changes or ["  Your plan, unchanged."]),
            *(f"  trade-off: {sentence}" for sentence in one.trade_offs),
            f"  {one.launch}",
            *(
                f"  {offer.provider} {offer.usd_per_hour:.2f} $/h"
                f"{offer.kind and f' {offer.kind}'} ({offer.date})"
                for offer in offers(one.plan.gpu)
            ),
            *([] if offers(one.plan.gpu) else [f"  {NO_PRICE}"]),
            f"  ?{to_query_string(one.plan, short=True)}",
            "",
        ]
    lines += filter(None, (found.knee, found.same))
    if not found.recommendations:
        closest = (f"  {_changed(miss.changes)}: {miss.lacks}" for miss in found.misses)
        lines += ["No plan within these limits fits. The closest:", *closest]
    judged = found.judged
    lines += [
        *(
            f"tie with {tie.of}, too close to call: {_changed(tie.changes)}: {tie.figure}; "
            f"{tie.apart}"
            for tie in found.ties
        ),
        *(f"not searched: {sentence}" for sentence in found.left_out),
        f"{judged.plans:,} plans estimated in {judged.seconds:.1f} s "
        f"({judged.combinations:,} combinations of settings). These are "
        "estimates.",
    ]
    return "\n".join(lines)


def _changed(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{field} {value}" for field, value in changes.items()) or "as it is"
