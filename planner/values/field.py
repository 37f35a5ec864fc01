"""What a field of a plan is, in one row: what pages, links, rules, searches and texts read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo

from planner.numeric import Num

Idle = tuple[str, Callable[[Any], bool]]
"""Why a field changes nothing in a plan, and where that is so."""
Refusal = tuple[Callable[[Any], Num], str, str]
"""Where a plan or a sweep's grid cannot be, what is wrong, and the way out."""

IN_SIGHT = ("in sight", 0)
"""Of a field whose input is always shown (:mod:`planner.ui.inputs.groups`)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is said of a field besides its type, default, label and description."""

    more: str = ""
    """What its help says after the description: what that presumes."""
    label_in_sentences: str = ""
    """The label in a sentence, where nothing beside it says what it is of."""
    unit: str = ""
    empty: str = ""
    """What an empty input means, whose value is then 0."""
    choice_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What a value is called where its own word is no reader's."""
    synonyms: str = ""
    """What else people type to find it."""
    page: tuple[str, int] = ("", 0)
    """Group of the sidebar and place in it; empty without an input of its own."""
    step: float = 0
    """What the plus and minus buttons add."""
    since: int = 1
    """First version of links that has it."""
    only_time: bool = False
    """No GPU memory follows from it, which a test holds."""
    no_effect: tuple[Idle, ...] = ()
    """Where it changes nothing, as far as other fields tell."""
    refused: tuple[Refusal, ...] = ()
    """What cannot be, as far as other fields tell."""
    not_modelled: Refusal | None = None
    """What is not modelled yet whatever else a plan has: asked of a value alone, too."""
    alternative: str = ""
    """What somebody is told who looks for it and cannot plan it, and what to do instead."""
    moves: str = ""
    """Which way the figures go that an answer without its value leaves out."""
    not_run: str = ""
    """What ran instead where no step executes it: the default."""
    not_exported: str = ""
    """Why no script has it."""
    search_values: tuple[Any, ...] = ()
    """Values that a search tries, each by itself."""
    in_place_of: str = ""
    """Of a method's own field: the shared one that it stands for."""

    def __call__(self, schema: dict[str, Any]) -> None:
        """A JSON schema of the field has nothing of it; pydantic asks."""


def field(default: Any, label: str, description: str, /, **row: Any) -> Any:
    """A field of a plan; ``row`` are those of :class:`Row`."""
    extra = Row(**row)
    return Field(default, title=label or None, description=description, json_schema_extra=extra)


REMEDIES: Mapping[Any, str] = {
    int: "Give a whole number within its limits",
    float: "Give a number within its limits",
    bool: "Give true or false",
    str: "Give a name with only letters, digits and . _ / -",
}


def remedy_of(info: FieldInfo | None, own: str = "") -> str:
    """What to do about a value of the wrong kind or size: for people, with the meaning."""
    if info is None:
        return "Leave it out."
    kind = own or REMEDIES.get(info.annotation, "Choose one of these")
    return f"{kind}. It means: {info.description}"


def row_of(info: FieldInfo) -> Row:
    """The row of a field; an empty one where it has none."""
    extra = info.json_schema_extra
    return extra if isinstance(extra, Row) else Row()
