"""Dictionaries of a Python script that become arguments: ``GRPOConfig(**settings)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from planner.importer.given import Given
from planner.importer.python_options import dotted
from planner.importer.python_values import OpenError, Value, Values


class Dictionaries(Values):
    """Follows dictionaries entry by entry: one that is open leaves the others known."""

    def given(self, name: str, node: ast.expr) -> Given:
        """An expression as a setting: its value, or how it is written where that is open."""
        try:
            made = self.value(node)
        except OpenError as error:
            shown = self.text[self.place(node).start : self.place(node).end][:200]
            return Given(name, shown, self.place(node), error.opens)
        return _said(name, made)

    def named(self, name: str, node: ast.expr) -> list[Given]:
        """An argument as a setting; of a dictionary that is open in parts each entry as one."""
        made = self.given(name, node)
        told = self.spread(node) if any(one.default is None for one in made.opens) else [made]
        if any(one.name == "**" for one in told) or told == [made]:
            return [made]
        return [replace(one, name=f"{name}.{one.name}") for one in told]

    def spread(self, node: ast.expr) -> list[Given]:
        """``**settings``: entries of a known dictionary, else one open value."""
        told = self.written(node)
        known = self.known.get(node.id) if isinstance(node, ast.Name) else None
        if told is None and known is not None and known.entries is not None:
            told = [_said(key, each) for key, each in known.entries.items()]
        self.effort.spend(len(told or ()))
        return [self.given("**", node)] if told is None else told

    def written(self, node: ast.expr) -> list[Given] | None:
        """Entries of a dictionary that is written out; None: not all their names are."""
        found: list[Given] = []
        pairs: list[tuple[ast.expr | None, ast.expr]]
        if isinstance(node, ast.Dict):
            pairs = [*zip(node.keys, node.values, strict=True)]
        elif isinstance(node, ast.Call) and dotted(node.func) == "dict" and not node.args:
            pairs = [(ast.Constant(e.arg) if e.arg else None, e.value) for e in node.keywords]
        else:
            return None
        for key, value in pairs:
            if key is None:
                found += self.spread(value)
            elif isinstance(key, ast.Constant):
                found.append(self.given(str(key.value), value))
            else:
                return None
        return None if any(one.name == "**" for one in found) else found

    def held(self, node: ast.expr) -> Value:
        """What a name is assigned: a value, open or not, with a dictionary's entries."""
        try:
            made = self.value(node)
        except OpenError as error:
            made = Value(None, None, error.opens)
        told = self.written(node)
        return made if told is None else self._with(made, {}, told)

    def _with(self, made: Value, had: dict[str, Value], told: Iterable[Given]) -> Value:
        entries = {**had, **{one.name: _held(one) for one in told}}
        self.effort.spend(len(entries) // 16)
        return Value(made.value, made.place, made.opens, made.size, entries)

    def entered(self, target: ast.Subscript, node: ast.expr) -> bool:
        """``settings["beta"] = …`` of a dictionary that is known."""
        name, key = dotted(target.value), target.slice
        if isinstance(key, ast.Constant) and name in self.known:
            return self._added(name, [self.given(str(key.value), node)], target)
        return False

    def updated(self, name: str, node: ast.Call) -> None:
        """``settings.update(…)``; of a dictionary that is not written out, nothing is known."""
        told: list[Given] = []
        for one in node.args:
            told += self.spread(one)
        for keyword in node.keywords:
            if keyword.arg is None:
                told += self.spread(keyword.value)
            else:
                told.append(self.given(keyword.arg, keyword.value))
        if any(one.name == "**" for one in told) and name in self.known:
            self.known[name] = Value(None, None, (self.open(node),))
        else:
            self._added(name, told, node)

    def _added(self, name: str, told: list[Given], node: ast.expr) -> bool:
        known = self.known.get(name)
        if known is None or known.entries is None:
            return False
        self.known[name] = self._with(
            Value(None, None, (self.open(node),)), {**known.entries}, told
        )
        return True


def _said(name: str, made: Value) -> Given:
    entries = tuple(_said(key, one) for key, one in (made.entries or {}).items())
    return Given(name, made.value, made.place, made.opens, entries=entries)


def _held(one: Given) -> Value:
    entries = {each.name: _held(each) for each in one.entries}
    return Value(one.value, one.place, one.opens, entries=entries or None)
