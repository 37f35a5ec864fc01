"""Branches and loops of a Python script: which statements run, and what rests on that."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace

from planner.importer.given import Given, Open
from planner.importer.python_dictionaries import Dictionaries
from planner.importer.python_values import OpenError, Value


class Branches(Dictionaries, ABC):
    """Follows both sides of a branch whose test the text does not decide."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.under: list[Open] = []
        """The branches and loops that a statement stands in."""

    @abstractmethod
    def block(self, body: list[ast.stmt]) -> None:
        """Statements in their order."""

    def tested(self, node: ast.AST) -> Value | None:
        """What an ``if`` asks, where the text says it."""
        try:
            return self.value(node.test) if isinstance(node, ast.If | ast.IfExp) else None
        except OpenError:
            return None

    def branches(self, node: ast.stmt) -> None:
        """Statements inside of one: of an ``if`` on constants those that run."""
        test = self.tested(node)
        for kind in ("body", "orelse", "finalbody"):
            inner = getattr(node, kind, None)
            runs = None if test is None else bool(test.value) is (kind == "body")
            if not inner or not isinstance(inner, list):
                continue
            if test is None or test.opens:
                self.branch(node, inner, runs)
            elif runs:
                self.block(inner)

    def branch(self, node: ast.stmt, inner: list[ast.stmt], runs: bool | None) -> None:
        """Statements that run or not, or more than once; what does not run by itself is open."""
        before = self.before()
        rests = isinstance(node, ast.If | ast.For | ast.While | ast.Try)
        test = getattr(node, "test", None) or getattr(node, "iter", None)
        shown = ast.unparse(test)[:200] if test is not None else "try"
        rests = rests and shown != "__name__ == '__main__'"
        outside = self.under
        if rests and test is not None:
            asked = isinstance(node, ast.If) and inner is node.orelse
            self.under = [*outside, _rested(test, not asked, runs)]
        self.block(inner)
        self.under = outside
        if rests:
            self.differing(before, shown, runs is not False)

    def before(self) -> dict[str, Value]:
        """What is known, to be looked at again behind a branch."""
        self.effort.spend(len(self.known) // 64)
        return dict(self.known)

    def chosen(self, node: ast.IfExp) -> Iterator[tuple[ast.AST, list[Open]]]:
        """The sides of ``a if test else b`` that may be taken, each with what it rests on."""
        test = self.tested(node)
        for one, of in ((node.body, True), (node.orelse, False)):
            runs = None if test is None else bool(test.value) is of
            if test is None or test.opens:
                yield one, [*self.under, _rested(node.test, of, runs)]
            elif runs:
                yield one, self.under

    def differing(self, before: Mapping[str, Value], shown: str, runs: bool) -> None:
        """What a branch changes rests on whether it runs; one that does not changes nothing yet."""
        for name, value in self.known.items():
            had = before.get(name)
            if had is not value:
                known = had or Value(None, None, (Open(shown),))
                one = value if runs else known.waiting(shown, value)
                self.known[name] = one.resting(shown, had)


def _rested(test: ast.expr, holds: bool, runs: bool | None) -> Open:
    """What statements below a branch rest on: that its test holds, or that it does not."""
    if not holds:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
        else:
            test = ast.UnaryOp(ast.Not(), test)
    return Open(ast.unparse(test)[:200], None if runs is False else "True")


def below(one: Given, under: list[Open]) -> Given:
    """A setting with what a call as a whole rests on."""
    if not under:
        return one
    entries = tuple(below(each, under) for each in one.entries)
    return replace(one, opens=(*one.opens, *under), entries=entries)
