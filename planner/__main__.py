"""The command line: ``python -m planner estimate|dry-run|trial|trials|sweep|recommend|…``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from planner.background import Refused
from planner.cli import (
    advise,
    benchmark,
    compare,
    dry_run,
    estimate,
    fields,
    gpus,
    import_,
    launch,
    lengths,
    models,
    recommend,
    report,
    sampling,
    sweep,
    trial,
    trials,
)
from planner.problem import PlanError

COMMANDS: dict[ModuleType, str] = {
    estimate: "whether a plan fits, how fast it is, what it costs, and why",
    dry_run: "run the plan's real step on fake tensors (no GPU) and check the estimate",
    trial: "run a few real steps here or on a Ray cluster and compare with the prediction",
    trials: "list, export and import the trials that were run",
    benchmark: "measure how much of its peak FLOP/s and bandwidth this GPU reaches",
    sweep: "estimate a plan over ranges of its settings",
    recommend: "search for the plans that meet a goal best: cheapest, fastest, fewest GPUs, …",
    advise: "what to change: what makes it fit, what uses free memory, what has no effect",
    compare: "two to four plans side by side, and which differences matter",
    sampling: "what density-weighted prompt sampling needs",
    lengths: "turn a file of response lengths into the text that a plan takes",
    report: "write the plan on one page of HTML, for whoever approves it",
    import_: "read scripts, configurations, logs and errors into a plan",
    launch: "write a framework's launch script for the plan",
    models: "list the models of the catalog",
    gpus: "list the GPUs of the catalog",
    fields: "list every field of a plan, as a Markdown table",
}
"""A module a command, named like it, and its line of help."""


def parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    top = argparse.ArgumentParser(prog="python -m planner", description="Headroom's command line.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command, help in COMMANDS.items():
        name = command.__name__.rpartition(".")[2].replace("_", "-").strip("-")
        own = commands.add_parser(name, help=help)
        own.set_defaults(run=command.run)
        command.register(own)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        0 when it answered; 2 when something given was wrong, with a line a problem on stderr; 3
        when a plan that was judged does not fit.
    """
    parsed = parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except PlanError as error:
        for problem in error.problems:
            sentence = problem.sentence.strip()
            named = sentence.startswith(problem.field)
            print(sentence if named else f"{problem.field}: {sentence}", file=sys.stderr)
        return 2
    except (ValueError, OSError, Refused) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
