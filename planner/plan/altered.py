"""A plan that reads otherwise in some fields, without the price of making one: nobody checks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from planner.plan.fields import PlanFields as Plan


class _Altered:
    def __init__(self, plan: Plan, changes: Mapping[str, Any]) -> None:
        self.__dict__.update(plan=plan, changes=changes)

    def __getattr__(self, name: str) -> Any:
        changes = self.__dict__["changes"]
        return changes[name] if name in changes else getattr(self.__dict__["plan"], name)


def altered(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """A plan, or a sweep's grid, as having these values in some fields."""
    return cast("Plan", _Altered(plan, changes)) if changes else plan
