"""A document's number, its own derivation computed, and what is really there.

Where a document derives a number, the derivation is computed from its own assumptions,
so that a wrong sum shows; where it gives none, the number stands as claimed. Pure: no
estimate and no page in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

ROUNDED = 0.06
"""A derivation this near to the claim agrees with it: documents round, some to one digit."""

GB, MB = 1e9, 1e6
UNITS = {"GB": GB, "MB": MB, "%": 0.01}
"""What one of a claim's unit is, where it is not 1."""

Judgement = Literal["agrees", "does not follow", "no derivation"]


@dataclass(frozen=True, slots=True)
class Working:
    """A sum: Python arithmetic over named inputs. The expression is a constant of ours."""

    expression: str
    inputs: Mapping[str, float] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The sum's result."""
        code = compile(self.expression, "<working>", "eval")
        return float(eval(code, {"__builtins__": {}}, dict(self.inputs)))


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of a document.

    ``claimed`` is the number in ``unit`` (GB, MB, ×, %), ``written`` how it stands there;
    ``working`` derives it in bytes (or as a plain number) from the document's assumptions
    and :data:`UNITS` says how much of that one unit is. ``truth`` is the same quantity rightly
    computed, where there is one, and ``why`` what makes the difference.
    """

    what: str
    written: str
    claimed: float
    unit: str
    _: KW_ONLY
    why: str
    working: Working | None = None
    truth: Working | None = None

    @property
    def derived(self) -> float | None:
        """The derivation's result in the claim's unit."""
        return self._in_unit(self.working)

    @property
    def true(self) -> float | None:
        """The right value in the claim's unit."""
        return self._in_unit(self.truth)

    def _in_unit(self, sum_: Working | None) -> float | None:
        return None if sum_ is None else sum_.value / UNITS.get(self.unit, 1)

    @property
    def judgement(self) -> Judgement:
        """Whether the document's number follows from its own assumptions."""
        if self.derived is None:
            return "no derivation"
        return "agrees" if abs(self.derived / self.claimed - 1) <= ROUNDED else "does not follow"
