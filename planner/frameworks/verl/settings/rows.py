"""Kinds of rows that verl's table is made of.

A row's source is a file of verl 0.9.1's wheel with a line: below ``verl/trainer/config`` where it
is YAML, below ``verl`` where it is Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from planner.plan import Plan
from planner.values.setting import Moves, Setting, refusing

ACTOR = "actor_rollout_ref.actor"
REFERENCE = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
CRITIC = "critic"

Said = Mapping[str, Any]
"""All settings, resolved, by name."""
Write = Callable[[Plan], Any]
Read = Callable[[Any, Said], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Added(Setting):
    """A setting that verl's code reads and its YAML does not have: hydra wants a plus before it."""


def whole(value: Any) -> int:
    """A whole number.

    Raises:
        ValueError: it is none.
    """
    if real(value) != value // 1:
        raise ValueError(f"{shown(value)} is not a whole number.")
    return int(value)


def real(value: Any) -> float:
    """A number.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        raise ValueError(f"{shown(value)} is not a number that a plan can have.")
    return float(value)


def truth(value: Any) -> bool:
    """True or false.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{shown(value)} is neither true nor false.")
    return value


def shown(value: Any) -> str:
    """A value as a sentence may quote it."""
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def one_of(names: Mapping[Any, Any], value: Any, what: str) -> Any:
    """What a name stands for.

    Raises:
        ValueError: for nothing here; ``what`` begins the sentence.
    """
    if not isinstance(value, str | int | float) or value not in names:
        raise ValueError(f"{what} {shown(value)} is not planned.")
    return names[value]


def carries(
    field: str,
    name: str,
    default: Any,
    source: str,
    kind: Callable[[Any], Any] = whole,
    *,
    write: Write | None = None,
    unit: str = "",
    moves: Moves = "both",
) -> Setting:
    """A setting that is a field of the plan, under another name."""
    return Setting(
        name=name,
        default=default,
        moves=moves,
        source=source,
        fields=(field,),
        write=write or attrgetter(field),
        read=lambda value, said: {field: kind(value)},
        unit=unit,
    )


def joint(
    fields: tuple[str, ...],
    name: str,
    default: Any,
    source: str,
    write: Write | None = None,
    read: Callable[[Said], Mapping[str, Any]] | None = None,
    *,
    moves: Moves = "both",
    kind: type[Setting] = Setting,
) -> Setting:
    """One of several settings that together decide fields; without ``read`` another one reads."""
    return kind(
        name=name,
        default=default,
        moves=moves,
        source=source,
        fields=fields,
        write=write,
        read=(lambda value, said: read(said)) if read else None,
    )


def same_as(
    row: Setting,
    name: str,
    default: Any,
    source: str,
    applies: Callable[[Said], bool],
    write: Write | None = None,
    *,
    also: Callable[[Plan], bool] = lambda plan: True,
    kind: type[Setting] = Setting,
) -> Setting:
    """A setting of another role or pass, where the plan has one field for both.

    Args:
        row: The setting that decides.
        name: This one.
        default: Of this one.
        source: Of this one.
        applies: Whether the role is there.
        write: Its value; the same as of ``row`` without.
        also: Whether it is written at all.
        kind: Of the row.
    """
    written = write or row.write

    def read(value: Any, said: Said) -> Mapping[str, Any]:
        if applies(said) and value != said[row.name]:
            raise ValueError(
                f"A plan has one value for this and {row.name}, which is {shown(said[row.name])}."
            )
        return {}

    return kind(
        name=name,
        default=default,
        moves=row.moves,
        source=source,
        fields=row.fields,
        write=(lambda plan: written(plan) if also(plan) else None) if written else None,
        read=read,
    )


def follows(
    row: Setting, name: str, default: Any, source: str, applies: Callable[[Said], bool]
) -> Setting:
    """Like :func:`same_as`, of one that no export writes: in the YAML it follows ``row``."""
    return same_as(row, name, default, source, applies, also=lambda plan: False)


def refuses(
    field: str, name: str, default: Any, source: str, usual: tuple[Any, ...], why: str,
    write: Write | None = None, kind: type[Setting] = Setting,
) -> Setting:  # fmt: skip
    """A setting whose field plans have for usual values only; others are refused with ``why``."""
    return kind(
        name=name, default=default, source=source, fields=(field,), write=write,
        read=refusing(why, lambda value, said: value not in usual),
    )  # fmt: skip
