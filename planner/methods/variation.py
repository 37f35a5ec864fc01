"""What a variation of a method is: another objective over the same step.

Imports nothing of a plan, as :mod:`planner.methods.method`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A published variation, under the name that the plan's field ``variation`` has."""

    title: str
    """What people call it."""
    label: str
    """The title and a few words more, for lists of choices."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What nobody set in a plan of it, besides the method's own."""
    memory: str
    """What of it changes memory or time and what does not, for a person."""
    left_out: str = ""
    """What of it no setting of a trainer makes: who runs a script of it has to do that."""
