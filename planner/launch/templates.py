"""A program of this project's own: what a framework exports where it has no code for a plan.

It is the ``export`` of a :class:`planner.values.framework.Trainer`. What is said of it here is
what a method knows; :mod:`planner.launch.program` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.plan.plan import choices
from planner.values.setting import Moves, Setting

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A constant of a program: an entry of its ``PLAN``, with the reason that stands beside it."""

    name: str
    value: object
    why: str = ""


Why = str | Callable[[Plan], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Setting):
    """A row of a program's table: how its ``PLAN`` has something of a plan, and why.

    Nothing is a default there: a program stops where its ``PLAN`` lacks an entry.
    """

    default: Any = None
    moves: Moves = "both"
    source: str = "planner/launch/pieces"
    why: Why = ""


def of_fields(whys: Mapping[str, Why], prefix: str = "") -> tuple[Constant, ...]:
    """Constants that are fields of a plan as they are; ``prefix`` is left out of a name.

    They stand in the order of their reasons.
    """
    return tuple(
        Constant(
            name=name.removeprefix(prefix),
            fields=(name,),
            write=attrgetter(name),
            read=partial(_as_field, name),
            why=why,
        )
        for name, why in whys.items()
    )


def _as_field(name: str, value: Any, said: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: literal_of(name, value)}


def literal_of(name: str, value: Any) -> Any:
    """A literal as a value of a field.

    Raises:
        ValueError: it is of another kind, or none of the field's choices.
    """
    kind = KINDS[name]
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (choices(name) and value not in choices(name)):
        raise ValueError(f"{str(value)[:80]} is no value of {name}.")
    return value


def decided(rows: Iterable[Constant], plan: Plan) -> Iterator[Decision]:
    """What the constants are for a plan."""
    for row in rows:
        if row.write is not None:
            why = row.why if isinstance(row.why, str) else row.why(plan)
            yield Decision(name=row.name, value=row.write(plan), why=why)


Fixed = Mapping[str, tuple[object, str]]
"""Fields that a program has one value for, whatever its ``PLAN`` says, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Templates of a method's program, and what they are filled with.

    A template is a Python file as a person would write it, with an empty ``PLAN``; what it
    imports of :mod:`planner.launch.pieces` is written into it. It is read, never imported.
    """

    templates: Callable[[Plan], tuple[Path, ...]]
    """Files of a plan's program, in the order in which they run; the last one trains."""
    constants: tuple[Constant, ...]
    """The method's own."""
    fixed: Fixed = field(default_factory=dict)
    """Fields that it has one value for, beside those that every program has."""
    flags: tuple[str, ...] = ()
    """Constants that an option of the same name changes for one run, beside every program's."""
    refuse: Callable[[Obstacles], None] = lambda found: None
    """Notes what else it cannot do in the plan's :class:`planner.launch.obstacles.Obstacles`."""
    within: Callable[[Plan], bool] = lambda plan: True
    """Whether a plan is laid out as it runs; where not, there is no program for it."""
    rewarded: bool = False
    """Whether it scores responses by ``reward.py``."""
    notes: Callable[[Plan], tuple[str, ...]] = lambda plan: ()
    """Sentences for a person."""
