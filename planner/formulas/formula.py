"""A formula: one expression that is both what is shown and what is computed.

``Formula("2 * hidden * tokens", ...)`` is called with its inputs and gives a
:class:`~planner.term.Term`. The text on the Formulas page and the number in
an estimate come from the same string, so they cannot drift apart. The strings are
constants of this package; nothing from outside ever reaches :func:`eval`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType
from typing import Any

from planner.numeric import Num, ceil_div, maximum, minimum, round_up
from planner.term import Category, Layout, Term

FUNCTIONS: Mapping[str, Any] = {
    "ceil_div": ceil_div,
    "round_up": round_up,
    "maximum": maximum,
    "minimum": minimum,
}
SCOPE: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS}

REGISTRY: dict[str, Formula] = {}


class Expression:
    """Arithmetic over named inputs, what it rests on, and its name in a registry."""

    __slots__ = ("code", "expression", "ignores", "inputs", "name", "source", "why")

    def __init__(
        self, name: str, expression: str, *, source: str, why: str, ignores: str = ""
    ) -> None:
        self.name = name
        self.expression = expression
        self.source = source
        self.why = why
        self.ignores = ignores
        self.code: CodeType = compile(expression, f"<formula {name}>", "eval")
        self.inputs = tuple(name for name in self.code.co_names if name not in FUNCTIONS)
        """Names the expression reads, in order of first use."""

    def value(self, /, **inputs: Num) -> Num:
        """The expression's value; ``NameError`` when an input is missing."""
        return eval(self.code, SCOPE, inputs)

    def of(self, inputs: Mapping[str, Num]) -> Num:
        """The same of inputs that are together already, and more of them than it reads."""
        return eval(self.code, SCOPE, inputs)


class Formula(Expression):
    """One physical quantity in bytes, as an expression over named inputs.

    Args:
        name: what a person reads, unique in the package.
        expression: Python arithmetic over the inputs; ``ceil_div``, ``round_up``,
            ``maximum`` and ``minimum`` are available. The result is bytes.
        category: colour and group of the term.
        source: where the expression comes from (paper, source file, measurement).
        why: one sentence that explains the expression.
        ignores: what it leaves out, in words; empty when nothing known is left out.
    """

    __slots__ = ("category",)

    def __init__(self, name: str, expression: str, *, category: Category, **rest: str) -> None:
        if name in REGISTRY:
            raise ValueError(f"formula {name!r} is defined twice")
        super().__init__(name, expression, **rest)
        self.category: Category = category
        REGISTRY[name] = self

    def __call__(self, role: str, /, **inputs: Any) -> Term:
        """The term of ``role`` by the expression's inputs, and by what else is said of it.

        Args:
            role: whose bytes they are.
            inputs: values of the names in the expression; beside them may stand ``label`` (the
                term's name, unless it is the formula's), ``tensors`` or ``layout`` (how its bytes
                are spread), ``host`` (they are in host RAM) and ``between`` (bounds, in bytes, of
                what nobody can know exactly).
        """
        if len(inputs) == len(self.inputs):
            return self.made(role, inputs)
        # Taken out by hand: Python compares each keyword with each name of a signature like this.
        take = inputs.pop
        label, tensors, layout = take("label", ""), take("tensors", 1), take("layout", ())
        host, between = take("host", False), take("between", (None, None))
        return self.made(role, inputs, label, tensors, layout, host, *between)

    def made(
        self, role: str, inputs: dict[str, Num], label: str = "", tensors: Num = 1,
        layout: Layout = (), host: bool = False, low: Num | None = None, high: Num | None = None,
    ) -> Term:
        """The same of inputs that are together already."""
        fields = (
            label or self.name,
            role,
            self.category,
            eval(self.code, SCOPE, inputs),
            self.expression,
            inputs,
            self.source,
            self.ignores,
            tensors,
            layout,
            host,
            low,
            high,
        )
        # Term's own __new__ would only put the same fields together by name.
        return tuple.__new__(Term, fields)
