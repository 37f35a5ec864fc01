"""What is found by its name: methods, frameworks, who answers a plan, what forks import.

Methods and frameworks stand above whatever they are made of, and nothing imports them: who needs
one asks here. No other module imports one of ours by a name that it puts together. Imports nothing
of ours until it is asked.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

ANSWERS: Mapping[str, str] = {
    "uncovered": "planner.setup.coverage",
    "usual_targets": "planner.formulas.lora",
    "refuses_sdpa": "planner.formulas.activations.coverage",
}
"""What a plan asks before it exists, and the module above it whose function of that name answers:
what formulas cover, and what they know of a model."""

WARM = ("planner.dryrun.run.execute", "planner.dryrun.run.spot", "planner.trial.run.runner")
"""What dry runs and trials import, torch, transformers and peft with it: a server of forks
(:mod:`planner.forks`) has done so before it is asked."""


def folders(kind: str) -> tuple[str, ...]:
    """Names of the folders of ``methods`` or ``frameworks``."""
    package = import_module(f"planner.{kind}")
    return tuple(found.name for found in pkgutil.iter_modules(package.__path__) if found.ispkg)


def name_of(kind: str, folder: str, module: str = "") -> str:
    """The whole name of a folder, or of a module of it."""
    return f"planner.{kind}.{folder}{module and '.'}{module}"


def has(kind: str, folder: str, module: str) -> bool:
    """Whether a folder has a module: ``exporter``, or ``trainers.grpo``."""
    inside, _, _ = module.rpartition(".")
    return all(find_spec(name_of(kind, folder, each)) for each in (inside, module))


def load(kind: str, folder: str, module: str = "") -> Any:
    """A folder of methods or frameworks, or a module of it, imported when it is asked for."""
    return import_module(name_of(kind, folder, module))


@cache
def answer(question: str) -> Any:
    """The function that answers one of :data:`ANSWERS`."""
    return getattr(import_module(ANSWERS[question]), question)
