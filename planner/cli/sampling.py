"""``python -m planner sampling plan|…``: density-aware sampling on the command line."""

from __future__ import annotations

import argparse
from types import ModuleType

from planner.cli import sampling_plan, sampling_run

COMMANDS: dict[ModuleType, str] = {
    sampling_plan: "what sampling by density needs: host RAM, GPU memory, disk, time, which mode",
    sampling_run: "prompts to weights: embed, find neighbours, weigh, beside what was predicted",
}
"""A module a command, named like it after ``sampling_``, and its line of help."""


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the commands below this one."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command, help in COMMANDS.items():
        name = command.__name__.rpartition("sampling_")[2].replace("_", "-")
        own = commands.add_parser(name, help=help)
        own.set_defaults(run=command.run)
        command.register(own)


def run(arguments: argparse.Namespace) -> int:
    """Never reached: one of the commands below is required."""
    raise ValueError("sampling: name a command, such as plan.")
