"""A formula of time or work: like :class:`~planner.formulas.formula.Formula`, but not bytes.

The expression is shown on the Formulas page and computed from the same string. Values
are seconds, FLOPs or positions, ``int`` or ``float`` for one plan and arrays for a sweep.
Expressions are constants of this package; nothing from outside reaches :func:`eval`.
"""

from __future__ import annotations

from types import CodeType
from typing import Literal

from planner.formulas.formula import FUNCTIONS
from planner.numeric import Num

Unit = Literal["seconds", "FLOPs", "bytes per second", "positions", "values"]

REGISTRY: dict[str, Rate] = {}


class Rate:
    """One quantity of a time estimate, as an expression over named inputs.

    Args:
        name: what a person reads, unique among the time formulas.
        expression: Python arithmetic over the inputs; ``ceil_div``, ``round_up``,
            ``maximum`` and ``minimum`` are available.
        unit: what the result is measured in.
        source: where the expression comes from.
        why: one sentence that explains the expression.
        ignores: what it leaves out, in words.

    Raises:
        ValueError: when the name is taken.
    """

    __slots__ = ("code", "expression", "ignores", "name", "source", "unit", "why")

    def __init__(
        self, name: str, expression: str, *, unit: Unit, source: str, why: str, ignores: str = ""
    ) -> None:
        """Compile the expression and enter the name in the registry."""
        if name in REGISTRY:
            raise ValueError(f"time formula {name!r} is defined twice")
        self.name = name
        self.expression = expression
        self.unit: Unit = unit
        self.source = source
        self.why = why
        self.ignores = ignores
        self.code: CodeType = compile(expression, f"<time formula {name}>", "eval")
        REGISTRY[name] = self

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names the expression reads, in order of first use."""
        return tuple(name for name in self.code.co_names if name not in FUNCTIONS)

    def __call__(self, **inputs: Num) -> Num:
        """The value in :attr:`unit`; ``NameError`` when an input is missing."""
        return eval(self.code, {"__builtins__": {}, **FUNCTIONS}, inputs)
