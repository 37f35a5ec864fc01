"""A document's claim, its own derivation computed, and what is really there.

Where a document derives a number, the derivation is computed from its own assumptions,
so that a wrong sum shows; where it gives none, the number stands as claimed. Pure: no
estimate and no page in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from planner.examples.dry_runs import Case

ROUNDED = 0.06
"""A derivation this near to the claim agrees with it: documents round, some to one digit."""

GB, MB = 1e9, 1e6
UNITS = {"GB": GB, "MB": MB, "%": 0.01}
"""What one of a claim's unit is, where it is not 1."""

Judgement = Literal["agrees", "does not follow", "no derivation"]

DRY_RUN = "dry run: "
"""What stands before a committed dry run's key in :attr:`Claim.tested`."""


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
    """One number or statement of a document.

    ``claimed`` is the number in ``unit`` (GB, MB, ×, %; None for a statement), ``written`` how
    it stands there; ``working`` derives it in bytes (or as a plain number) from the document's
    assumptions and :data:`UNITS` says how much of that one unit is. ``truth`` is the same
    quantity rightly computed, where there is one, ``said`` the same where it is not a number,
    and ``why`` what makes the difference; a ``case`` is a plan whose estimate is the truth.
    ``judged`` is the verdict where no sum gives it.

    ``tested`` names what holds the truth: tests as ``tests/folder/test_file.py::test_name``,
    whose text names this claim, and dry runs as :data:`DRY_RUN` and the case's key.

    Raises:
        ValueError: a statement without a verdict.
    """

    what: str
    written: str
    claimed: float | None = None
    unit: str = ""
    _: KW_ONLY
    why: str
    working: Working | None = None
    truth: Working | None = None
    said: str = ""
    case: Case | None = None
    judged: Judgement | None = None
    tested: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A statement's verdict follows from nothing here, so it has to be given."""
        if self.claimed is None and self.judged is None:
            raise ValueError(f"{self.what}: neither claimed nor judged is given; give one.")

    @property
    def derived(self) -> float | None:
        """The derivation's result in the claim's unit."""
        return self._in_unit(self.working)

    @property
    def true(self) -> float | None:
        """The right value in the claim's unit."""
        return self._in_unit(self.truth)

    @property
    def excess(self) -> float | None:
        """Claimed over right; None where both are near, or one of them is nothing."""
        if not self.claimed or not self.true:
            return None
        times = self.claimed / self.true
        return None if abs(times - 1) <= ROUNDED else times

    def _in_unit(self, sum_: Working | None) -> float | None:
        return None if sum_ is None else sum_.value / UNITS.get(self.unit, 1)

    @property
    def judgement(self) -> Judgement:
        """Whether the document's number follows from its own assumptions."""
        if self.judged is not None:
            return self.judged
        if self.derived is None or self.claimed is None:
            return "no derivation"
        near = abs(self.derived - self.claimed) <= ROUNDED * abs(self.claimed)
        return "agrees" if near else "does not follow"


def held_by(tests: tuple[str, ...], claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """The claims, those that name no test of their own as held by these."""
    return tuple(one if one.tested else replace(one, tested=tests) for one in claims)
