"""The methods: a folder each, found by looking, so that a new one is a new folder.

A folder ``planner/methods/<name>/`` has ``__init__.py`` with ``METHOD``
(:class:`~planner.methods.method.Method`: what it is), ``memory.py`` with ``phases(scene)`` (the
closed form) and ``step.py`` with ``step(run)`` (the real step; torch may be imported there alone).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.methods.method import Method

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan


@cache
def _found() -> tuple[tuple[str, Method], ...]:
    """Folder and value of every method, in the order of lists."""
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    each = [(folder, import_module(f"{__name__}.{folder}").METHOD) for folder in folders]
    return tuple(sorted(each, key=lambda pair: (pair[1].order, pair[1].name)))


@cache
def methods() -> Mapping[str, Method]:
    """Every method by its name, in the order of lists."""
    return MappingProxyType({method.name: method for _, method in _found()})


@cache
def aliases() -> Mapping[str, str]:
    """Other names that are accepted, and the method each is planned as."""
    return MappingProxyType(
        {
            other: method.name
            for method in methods().values()
            for other in (*method.aliases, *method.spellings)
        }
    )


def spelt(text: str) -> str:
    """A method's text in the letters of its name: a plus in a query is read as a space."""
    found = (text.strip().lower(), text.lower().replace(" ", "+"))
    return next((name for name in found if name in methods() or name in aliases()), text)


def method_of(plan: Plan) -> Method:
    """The method of a plan, of a sweep's grid, or of anything with the field ``method``."""
    return methods()[plan.method]


@cache
def folder_of(name: str) -> str:
    """The folder of a method, which is its name but for what no module may have in it."""
    return next(folder for folder, method in _found() if method.name == name)


@cache
def part(name: str, module: str, attribute: str) -> Any:
    """Something of a method's folder, loaded when it is asked for: ``memory``'s ``phases``."""
    return getattr(import_module(f"{__name__}.{folder_of(name)}.{module}"), attribute)
