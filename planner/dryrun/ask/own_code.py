"""Whether a framework's own code runs a plan: what is installed, and why it did not run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version

from planner.values.framework import Framework


def installed(package: str) -> str:
    """A package's version, read without importing it; empty where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def not_run(
    framework: Framework,
    reasons: Iterable[tuple[object, str]],
    obstacles: Callable[[], Iterable[str]],
) -> str:
    """The first reason that holds, as a sentence; empty where none does.

    Args:
        framework: whose code it is.
        reasons: what has to hold, and why nothing runs then, without a full stop.
        obstacles: sentences on what its step cannot do, asked for where no reason holds.
    """
    why = next((f"{why}." for holds, why in reasons if holds), "") or next(iter(obstacles()), "")
    return f"{framework.label}'s own code did not run: {why}" if why else ""
