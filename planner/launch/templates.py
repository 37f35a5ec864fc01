"""A program of this project's own: what a framework exports where it has no code for a plan.

It is the ``export`` of a :class:`planner.values.framework.Trainer`. What is said of it here is
what a method knows; :mod:`planner.launch.program` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.plan import Plan

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A constant of a program: an entry of its ``PLAN``, with the reason that stands beside it."""

    name: str
    value: object
    why: str = ""


def of_fields(values: object, whys: Mapping[str, str], prefix: str = "") -> Iterator[Decision]:
    """Constants that are fields of a plan, each with its reason; ``prefix`` is left out of a name.

    They stand in the order of their reasons.
    """
    for name, why in whys.items():
        yield Decision(name=name.removeprefix(prefix), value=getattr(values, name), why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Templates of a method's program, and what they are filled with.

    A template is a Python file as a person would write it, with an empty ``PLAN``; what it
    imports of :mod:`planner.launch.pieces` is written into it. It is read, never imported.
    """

    templates: Callable[[Plan], tuple[Path, ...]]
    """Files of a plan's program, in the order in which they run; the last one trains."""
    decisions: Callable[[Plan], Iterable[Decision]]
    """The method's own constants."""
    refuse: Callable[[Obstacles], None]
    """Notes what it cannot do in the plan's :class:`planner.launch.obstacles.Obstacles`."""
    within: Callable[[Plan], bool] = lambda plan: True
    """Whether a plan is laid out as it runs; where not, there is no program for it."""
    rewarded: bool = False
    """Whether it scores responses by ``reward.py``."""
    notes: Callable[[Plan], tuple[str, ...]] = lambda plan: ()
    """Sentences for a person."""
