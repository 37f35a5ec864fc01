"""The command line: ``python -m planner estimate|dry-run|trial|trials|sweep|launch|…``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from planner.cli import (
    benchmark,
    dry_run,
    estimate,
    fields,
    gpus,
    launch,
    models,
    sweep,
    trial,
    trials,
)
from planner.problem import PlanError

COMMANDS = (
    estimate,
    dry_run,
    trial,
    trials,
    benchmark,
    sweep,
    launch,
    models,
    gpus,
    fields,
)


def parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    top = argparse.ArgumentParser(prog="python -m planner", description="Headroom's command line.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.register(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        0 when it answered; 2 when something given was wrong, with a line a problem on stderr.
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
