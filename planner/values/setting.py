"""A setting of a framework: its name there, the plan's fields here, and both ways between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Moves = Literal["memory", "seconds", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of a framework's table, which its exporter and its importer read."""

    name: str
    """As the framework spells it, dotted where it nests."""
    default: Any
    """What the framework takes where nobody says anything, at the version of its folder."""
    moves: Moves = "both"
    source: str
    """File and line of the framework's source."""
    fields: tuple[str, ...] = ()
    """The plan's fields that it carries. None: it moves memory or seconds, and no field has it."""
    write: Callable[[Any], Any] | None = None
    """Its value for a plan; None where an export leaves it out."""
    read: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Fields from its value and from all resolved settings, by name."""
    whole: bool = False
    """Whether its value is a mapping that ``read`` takes as one."""
    unit: str = ""
    otherwise: str = ""
    """Without a field: which way it moves memory or seconds where it is not the default."""


def refusing(
    why: str, when: Callable[[Any, Mapping[str, Any]], object]
) -> Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]:
    """How a setting is read that decides no field: values that no plan has are refused.

    Args:
        why: the sentence; ``{value}`` in it is the setting's, ``{values[name]}`` another one's.
        when: whether a value is refused, given all resolved settings.
    """

    def read(value: Any, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if when(value, values):
            raise ValueError(why.format(value=value, values=values))
        return {}

    return read


def with_defaults(rows: Iterable[Setting], defaults: Mapping[str, object]) -> tuple[Setting, ...]:
    """The same rows where others decide what is taken for want of a word."""
    return tuple(
        replace(row, default=defaults[row.name]) if row.name in defaults else row for row in rows
    )
