"""A plan: everything a person chooses, frozen, validated, comparable, hashable.

A plan *is* what a link carries, so its field names are the keys of a link and are
never renamed. Fields that are left out are filled by :mod:`planner.plan.defaults` (what
the method, the framework and the number of GPUs make usual) and then stand in the
plan like any other. What cannot be is refused by :mod:`planner.plan.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError, create_model, model_validator

from planner import registry
from planner.plan.defaults import fill
from planner.plan.fields import PlanFields
from planner.plan.frameworks import frameworks
from planner.plan.methods import aliases, expanded, methods, spelt, variations
from planner.plan.rules import problems_of
from planner.problem import PlanError, Problem, of_error, refuse
from planner.values.field import Row, remedy_of, row_of


class BasePlan(PlanFields):
    """The fields, completed by what they make usual, and held to the rules."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        values = {
            key: value.strip() if isinstance(value, str) else value for key, value in given.items()
        }
        method = values.get("method")
        if isinstance(method, str):
            values["method"] = aliases().get(spelt(method), spelt(method))
        return fill(expanded(values))

    @model_validator(mode="after")
    def _check(self) -> BasePlan:
        refuse(problems_of(self) or tuple(registry.answer("uncovered")(self)))
        return self


NAMES = tuple(methods())
"""Every method a plan can have."""
VARIED = ("none", *variations())
"""Every variation, of whatever method; none is a method itself."""

if TYPE_CHECKING:
    Plan = PlanFields
else:
    own = [method.fields for method in reversed(methods().values()) if method.fields]
    fields = {
        name: (
            Literal[known],
            Field(
                known[0],
                title=info.title,
                description=info.description,
                json_schema_extra=info.json_schema_extra,
            ),
        )
        for name, known in {"method": NAMES, "variation": VARIED}.items()
        for info in (PlanFields.model_fields[name],)
    }
    Plan = create_model("Plan", __base__=(*own, BasePlan), __module__=__name__, **fields)
    Plan.__doc__ = PlanFields.__doc__


FIELDS: tuple[str, ...] = tuple(Plan.model_fields)
"""Every field's name, in the order links use."""
ROWS: Mapping[str, Row] = {name: row_of(info) for name, info in Plan.model_fields.items()}
"""What is said of each, methods' own too."""


@cache
def choices(field: str) -> tuple[str, ...]:
    """The values a field of choices can have; empty for other fields."""
    if field == "framework":
        return tuple(frameworks())
    annotation = Plan.model_fields[field].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


OWN_REMEDIES: Mapping[str, str] = {
    "framework": "Choose one of these",
    "gpu": "Name one card of the catalog, which `python -m planner gpus` lists",
    "length_distribution": "Leave it empty, or take the text that `python -m planner lengths` "
    "writes",
}
"""Where a text is no name."""


def remedy(field: str) -> str:
    """What to do about a value of the wrong kind or size."""
    return remedy_of(Plan.model_fields.get(field), OWN_REMEDIES.get(field, ""))


def try_plan(values: Mapping[str, Any]) -> tuple[Plan | None, tuple[Problem, ...]]:
    """The plan, or None and what is wrong with the values. Never raises for bad values."""
    try:
        return Plan(**values), ()
    except ValidationError as error:
        return None, of_error(error, "a plan", remedy)
    except PlanError as error:
        return None, error.problems
