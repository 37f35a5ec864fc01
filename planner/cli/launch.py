"""``python -m planner launch PLAN --on slurm``: the files that start the run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from planner.cli import plan_argument
from planner.launch.bundle.places import PLACES, SHELL
from planner.plan.chosen import differences
from planner.plan.frameworks import exported
from planner.plan.query import BENCHMARK, CALIBRATION, to_query_string
from planner.problem import PlanError, Problem
from planner.units import read_count


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    plan_argument.takes_plan(parser)
    parser.add_argument(
        "--framework",
        default="",
        help=f"{' or '.join(exported())}; else the plan's, or the first with a script for it",
    )
    parser.add_argument(
        "--on",
        choices=PLACES,
        default=SHELL,
        help="what launches it: you, on the machine or on each of several (torchrun); Slurm; or a "
        "job of a Ray cluster",
    )
    parser.add_argument(
        "--density-weights",
        metavar="online|DIR",
        default="",
        help="draw prompts by density weights: computed as the run starts (online), or read from "
        "the folder of a run of `sampling run`",
    )
    parser.add_argument(
        "--fit",
        action="store_true",
        help="also change the settings that are in the way, and say what that does to memory, time "
        "and cost",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="write the files here")


def run(arguments: argparse.Namespace) -> int:
    """Prints the files, or writes them; nothing that exists is overwritten."""
    from planner.launch.export import ONLINE, changed_for, export, following, scripted
    from planner.launch.launch import CannotExpress

    asked = plan_argument.require_asked(arguments.plan, arguments.model)
    plan_argument.for_estimates(asked, CALIBRATION, BENCHMARK)
    framework = arguments.framework or scripted(asked.plan, asked.chosen)
    try:
        run_by = changed_for if arguments.fit else following
        plan = run_by(asked.plan, framework, asked.chosen)
        link = "?" + to_query_string(plan, short=True)
        weights = arguments.density_weights
        if weights not in ("", ONLINE):
            weights = str(Path(weights).resolve())  # launch.sh goes to its own folder first
        launch = export(
            plan, framework, link=link, density_weights=weights, on=arguments.on
        )
    except CannotExpress as error:
        raise PlanError(
            tuple(Problem(found.field, found.sentence, "") for found in error.obstacles)
            + _way_out(asked, framework)
        ) from error
    changed = differences(dict(asked.plan), dict(plan))
    if changed:
        listed = ", ".join(f"{c.field} {c.before} -> {c.after}" for c in changed)
        what = "the plan was changed for" if arguments.fit else "what you did not set follows"
        print(f"note: {what} {launch.framework}: {listed}.", file=sys.stderr)
        plan_argument.tell_effect(asked.plan, plan)
    if arguments.out is None:
        for file in launch.files:
            print(f"# ---- {file.name}\n{file.text.rstrip()}\n")
    else:
        _write(arguments.out, {file.name: file.text for file in launch.files})
    for line in (f"install: {launch.install}", f"start: {launch.start}", *launch.notes):
        print(f"# {line}")
    return 0


def _way_out(asked: plan_argument.Asked, framework: str) -> tuple[Problem, ...]:
    """What --fit would do, where it can."""
    from planner.launch.export import changed_for

    try:
        near = changed_for(asked.plan, framework, asked.chosen)
    except ValueError:
        return ()
    count = read_count(len(differences(dict(asked.plan), dict(near))), "field")
    return (Problem("--fit", f"With --fit {framework} runs it, {count} changed.", ""),)


def _write(folder: Path, texts: dict[str, str]) -> None:
    if existing := [folder / name for name in texts if (folder / name).exists()]:
        fix = "Choose another folder."
        raise PlanError(tuple(Problem("--out", f"{path} exists.", fix) for path in existing))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
        print(path)
