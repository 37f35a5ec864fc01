"""A formula of time or work: like :class:`~planner.formulas.formula.Formula`, but not bytes.

The expression is shown on the Formulas page and computed from the same string. Values
are seconds, FLOPs or positions, ``int`` or ``float`` for one plan and arrays for a sweep.
Expressions are constants of this package; nothing from outside reaches :func:`eval`.
"""

from __future__ import annotations

from typing import Any, Literal

from planner.formulas.formula import Expression
from planner.term import TimeTerm

Unit = Literal[
    "seconds",
    "FLOPs",
    "bytes",
    "bytes per second",
    "positions",
    "values",
    "tokens per second",
    "share of the peak",
    "GPU-hours",
    "US dollars",
]

REGISTRY: dict[str, Rate] = {}


class Rate(Expression):
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

    __slots__ = ("unit",)

    def __init__(self, name: str, expression: str, *, unit: Unit, **rest: str) -> None:
        """Compile the expression and enter the name in the registry."""
        if name in REGISTRY:
            raise ValueError(f"time formula {name!r} is defined twice")
        super().__init__(name, expression, **rest)
        self.unit: Unit = unit
        REGISTRY[name] = self

    __call__ = Expression.value

    def term(self, role: str, /, **inputs: Any) -> TimeTerm:
        """The seconds as a cause of a phase's time, by the expression's inputs.

        Beside them may stand ``label`` (the term's name, unless it is the formula's), ``evidence``
        (whose measurements the shares are of), ``factors`` (on the seconds, at both ends of what
        is assumed of an input) and ``look_ups`` (how the kernels behind it are found).
        """
        # Taken out by hand, as a formula's.
        label, evidence = inputs.pop("label", ""), inputs.pop("evidence", "")
        factors, look_ups = inputs.pop("factors", None), inputs.pop("look_ups", ())
        fields = (
            label or self.name,
            role,
            self.of(inputs),
            self.expression,
            inputs,
            self.source,
            self.ignores,
            evidence,
            factors,
            look_ups,
        )
        return tuple.__new__(TimeTerm, fields)
