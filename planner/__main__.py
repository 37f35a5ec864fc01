"""The command line: ``python -m planner estimate|dry-run|trial|trials|sweep|recommend|…``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from planner.cli import (
    advise,
    benchmark,
    compare,
    dry_run,
    estimate,
    fields,
    gpus,
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
    estimate: "does the plan fit, and what decides it",
    dry_run: "execute the plan's real step without a GPU and check the estimate",
    trial: "run a few real steps here or on a Ray cluster, beside what was predicted",
    trials: "trials that were run: list, export, import",
    benchmark: "measure what share of its peaks this machine's card reaches",
    sweep: "estimate a plan over ranges of its fields",
    recommend: "three plans that meet a goal best: cheapest, fastest, fewest GPUs, …",
    advise: "what to change: what makes it fit, what its room buys, what does nothing",
    compare: "plans beside each other: what differs, and which differences matter",
    sampling: "sampling by density: what it needs",
    lengths: "how long responses are: a file of counts as the text a link carries",
    report: "the plan on one page of HTML, for whoever approves it",
    launch: "write the plan as a framework's launch script",
    models: "models that a plan can name",
    gpus: "cards that a plan can name",
    fields: "every field of a plan, as a Markdown table",
}
"""A module a command, named like it, and its line of help."""


def parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    top = argparse.ArgumentParser(prog="python -m planner", description="Headroom's command line.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command, help in COMMANDS.items():
        name = command.__name__.rpartition(".")[2].replace("_", "-")
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
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
