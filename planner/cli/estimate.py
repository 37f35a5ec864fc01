"""``python -m planner estimate PLAN``: the verdict, and each phase's peak."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import Any

from planner.cli import plan_argument
from planner.cli.answer import (
    error_line,
    headed,
    known,
    may_be_json,
    may_fail,
    own_comparisons,
    show,
    status,
    table,
)
from planner.cli.kernels import explained, may_explain, require_phase, with_kernels
from planner.cost import between_words, cost, price_words, reference_words
from planner.footprint import Footprint, Phase
from planner.late import lateness, longest_responses
from planner.lengths.typical import SOURCE, WHOSE
from planner.plan.length_words import named, offered
from planner.throughput import answer_json, read_figure, read_run, throughput
from planner.units import read_gib, read_seconds_between


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    may_be_json(parser)
    may_explain(parser)
    may_fail(parser)


YIELDED = {
    "tokens_per_second_per_gpu": "{} tokens/s per GPU",
    "mfu": "{} MFU of the update",
    "hfu": "{} HFU",
}


def run(arguments: argparse.Namespace) -> int:
    """Prints the estimate; the exit status is by its verdict.

    A link's benchmark and calibration are applied, or refused with the field that they do not
    fit.
    """
    from planner.estimate import estimate
    from planner.launch.export import not_launched

    asked = plan_argument.require_asked(arguments.plan, arguments.model)
    footprint = estimate(asked.plan, asked.benchmark)
    if asked.calibration is not None:
        from planner.trial.evidence.correction import apply

        footprint = apply(asked.calibration, footprint).footprint
    else:
        from planner.trial.evidence.stated_error import stated

        footprint = stated(footprint, own_comparisons(asked.plan.method))
    require_phase(footprint, arguments.explain)
    shape = offered(asked.plan)
    typical = (
        estimate(asked.plan.changed(length_distribution=shape), asked.benchmark) if shape else None
    )

    refused = not_launched(asked.plan, asked.chosen)

    def as_json(found: Footprint) -> dict[str, Any]:
        late = lateness(found)
        answer = {
            **answer_json(found),
            "typical_shape": typical and _shape_json(typical),
            "longest_responses": late and asdict(late),
            "not_launched": refused,
        }
        return with_kernels(answer, found, arguments.explain)

    def as_text(found: Footprint) -> str:
        told = (f"warning: {one}" for one in refused)
        return "\n".join((_text(found, typical), *told, *explained(found, arguments.explain)))

    show(arguments, footprint, as_json, as_text)
    return status(arguments, footprint.verdict.word)


def _shape_json(typical: Footprint) -> dict[str, Any]:
    """What a step takes where responses are of the shape that is offered, and whose shape it is."""
    return {
        "length_distribution": typical.plan.length_distribution,
        "seconds": typical.step_seconds,
        "low_seconds": typical.low_seconds,
        "high_seconds": typical.high_seconds,
        "source": SOURCE,
    }


def _text(footprint: Footprint, typical: Footprint | None) -> str:
    rows = [
        (
            phase.name,
            phase.rank,
            read_gib(phase.device_bytes),
            known(read_gib, phase.host_bytes),
            known(partial(_between, phase), phase.seconds),
        )
        for phase in footprint.phases
    ]
    lines = [
        *headed(footprint),
        "",
        table(("phase", "rank", "GPU GiB", "host GiB", "time"), rows, right=(2, 3, 4)),
        "",
        *_time_and_money(footprint, typical),
        *filter(None, [between_words(footprint), reference_words(footprint, cost(footprint))]),
        _bounds(footprint),
        *filter(None, [longest_responses(footprint)]),
        error_line(footprint),
        *(f"warning: {warning}" for warning in footprint.warnings),
        *(f"note: {note}" for note in footprint.notes),
    ]
    return "\n".join(lines)


def _bounds(footprint: Footprint) -> str:
    low, high = read_gib(footprint.low_bytes), read_gib(footprint.high_bytes)
    return (
        f"The peak is between {low} and {high} GiB: driver, CUDA graphs and allocator "
        "fragmentation vary."
    )


def _between(of: Phase | Footprint, seconds: float) -> str:
    return read_seconds_between(seconds, of.low_seconds, of.high_seconds)


def _time_and_money(footprint: Footprint, typical: Footprint | None) -> list[str]:
    """What a step and the run take; nothing of a plan that does not run.

    ``typical`` is the estimate of a typical shape of responses, of a plan that has none.
    """
    if footprint.verdict.incomplete:
        return ["Time and cost are not estimated for a plan with a part left out."]
    if not footprint.priced:
        return []
    found, step = cost(footprint), footprint.step_seconds
    if step is None:
        return ["One step: time unknown.", f"Cost: not known; {price_words(found)}."]
    figures = throughput(footprint, found)
    said = [
        words.format(read_figure(figures[key])) for key, words in YIELDED.items() if key in figures
    ]
    run = read_run(found)
    lines = [
        f"One step: {_between(footprint, step)}; {', '.join(said)}.",
        f"The run: {run} for {footprint.plan.steps:,} steps, "
        f"{read_figure(figures['gpu_hours_run'])} GPU-hours.",
    ]
    if typical is not None and typical.step_seconds is not None:
        shape = typical.plan.length_distribution
        lines.append(
            "These figures assume every response at the limit. With typical lengths, "
            f"{named(shape)} (length_distribution={shape}), a step takes "
            f"{_between(typical, typical.step_seconds)}; that shape is of {WHOSE}."
        )
    if footprint.doubt is not None:
        lines += [f"Times between brackets: {footprint.doubt.words}"]
    if "usd_run" not in figures:
        return [*lines, f"Cost: not known; {price_words(found)}."]
    each, whole = (read_figure(figures[key]) for key in ("usd_per_step", "usd_run"))
    return [*lines, f"Cost: {each} a step, {whole} the run; {price_words(found)}."]
