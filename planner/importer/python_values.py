"""Values of Python expressions: literals, names, and arithmetic of these; nothing is run."""

from __future__ import annotations

import ast
import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

from planner.importer.effort import Effort
from planner.importer.given import Open, Place, UnreadableError
from planner.importer.python_options import Option, Options, dotted

MOST_DEPTH = 60
MOST_CHARACTERS = 64_000
"""Of a text that is put together."""
MOST_DIGITS = 64
"""Of a number that is read out of a text, and the largest exponent."""
MOST_BITS = 4096
"""Of an integer that is calculated with."""
ACTS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


TESTS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


class OpenError(Exception):
    """A value rests on what the text does not say."""

    def __init__(self, opens: tuple[Open, ...]) -> None:
        super().__init__()
        self.opens = opens


class Value:
    """What an expression makes, and where that stands."""

    def __init__(
        self,
        value: Any,
        place: Place | None,
        opens: tuple[Open, ...] = (),
        size: int = 1,
        entries: Mapping[str, Value] | None = None,
    ) -> None:
        self.value, self.place, self.opens, self.entries = value, place, opens, entries
        self.size = size + len(value) // 16 if isinstance(value, str) else size
        """What it takes to look at all of it, each part counted as often as it stands there."""

    def resting(self, shown: str, before: Value | None) -> Value:
        """The same where a branch has changed it: it rests on whether that is taken."""
        opens = self.opens
        if not any(one.name == shown for one in opens):
            known = all(one.default is not None for one in opens)
            opens = (*opens, Open(shown, "True" if known else None))
        entries = self.entries
        if entries is not None:
            had = (before and before.entries) or {}
            entries = {
                key: one if had.get(key) is one else one.resting(shown, had.get(key))
                for key, one in entries.items()
            }
        return Value(self.value, self.place, opens, self.size, entries)


    def waiting(self, shown: str, other: Value) -> Value:
        """The same with what a branch that does not run by itself would add to a dictionary."""
        if self.entries is None or other.entries is None:
            return self
        added = {
            key: Value(one.value, one.place, (*one.opens, Open(shown)), one.size, one.entries)
            for key, one in other.entries.items()
            if key not in self.entries
        }
        return Value(self.value, self.place, self.opens, self.size, {**self.entries, **added})


class Values:
    """Evaluates expressions of one script, by the names that are known so far."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.lines = [0, *(found.end() for found in re.finditer(r"[\r\n]", text)), len(text)]
        self.ascii = text.isascii()
        self.columns: dict[int, list[int]] = {}
        self.known: dict[str, Value] = {}
        self.imported: set[str] = set()
        self.options = Options()
        self.effort = Effort("Give the calls that configure the run alone.")

    def error(self, at: int, message: str) -> UnreadableError:
        """What to raise for something at a character."""
        return UnreadableError(self.name, self.line(at), message)

    def line(self, at: int) -> int:
        """The line of a character, counted from 1."""
        return bisect_right(self.lines, at, hi=len(self.lines) - 1)

    def at(self, line: int, column: int) -> int:
        """The character of a line and a column in bytes."""
        start = self.lines[line - 1]
        if self.ascii:
            return start + column
        if line not in self.columns:
            written = self.text[start : self.lines[line]]
            sizes = (len(one.encode("utf-8", "surrogatepass")) for one in written)
            self.columns[line] = list(accumulate(sizes, initial=0))
        return start + bisect_left(self.columns[line], column)

    def place(self, node: ast.expr | ast.stmt) -> Place:
        """Where an expression stands, and how a text is written there."""
        start = self.at(node.lineno, node.col_offset)
        end = self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        form = "python'" if self.text.startswith("'", start) else "python"
        return Place(self.name, node.lineno, start, end, (form,))

    def open(self, node: ast.expr) -> Open:
        """An expression that the text does not say the value of."""
        place = self.place(node)
        return Open(self.text[place.start : place.end][:200], None, place)

    def value(self, node: ast.expr, depth: int = 0) -> Value:
        """What an expression makes; raises OpenError where that is not in the text."""
        made = self._value(node, depth)
        self.effort.spend(made.size + len(made.opens))
        return made

    def _value(self, node: ast.expr, depth: int) -> Value:
        if depth > MOST_DEPTH:
            raise UnreadableError(self.name, node.lineno, "it is nested too deeply to be read.")
        place = self.place(node)
        if isinstance(node, ast.Constant):
            return Value(node.value, place)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name and name.split(".")[0] in self.imported:
                return Value(name, place)
            if (option := self.options.of(name)) is not None:
                return self._option(option, depth)
            raise OpenError((self.open(node),))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            made = [self.value(one, depth + 1) for one in node.elts]
            kind = list if isinstance(node, ast.List) else tuple
            return Value(kind(one.value for one in made), place, _opens(made), _size(made))
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            values = [self.value(one, depth + 1) for one in node.values]
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            made_of = dict(zip(keys, (one.value for one in values), strict=True))
            entries = dict(zip(map(str, keys), values, strict=True))
            return Value(made_of, place, _opens(values), _size(values), entries)
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            return self._calculated(node, depth)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compared(node, depth)
        if isinstance(node, ast.IfExp):
            test = self.value(node.test, depth + 1)
            taken = self.value(node.body if test.value else node.orelse, depth + 1)
            return Value(taken.value, taken.place, _opens([taken, test]), taken.size)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node, depth)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
            return self._either(node.values[0], node.values[1], depth)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        raise OpenError((self.open(node),))

    def _option(self, option: Option, depth: int) -> Value:
        """An option's default, which the command can replace."""
        if option.default is None:
            raise OpenError((Open(option.name),))
        made = self.value(option.default, depth + 1)
        place = None if option.switch else made.place
        opens = (*made.opens, Open(option.name, str(made.value), place))
        return Value(made.value, place, opens, made.size)

    def _compared(self, node: ast.Compare, depth: int) -> Value:
        act = TESTS.get(type(node.ops[0]))
        if act is None:
            raise OpenError((self.open(node),))
        pair = [self.value(one, depth + 1) for one in (node.left, node.comparators[0])]
        return Value(act(pair[0].value, pair[1].value), None, _opens(pair))

    def _named(self, node: ast.Name) -> Value:
        known = self.known.get(node.id)
        if known is None:
            if node.id in self.imported:
                return Value(node.id, self.place(node))
            raise OpenError((self.open(node),))
        if any(one.default is None for one in known.opens):
            raise OpenError(known.opens)
        return known

    def _calculated(self, node: ast.UnaryOp | ast.BinOp, depth: int) -> Value:
        place = self.place(node)
        try:
            if isinstance(node, ast.UnaryOp):
                one = self.value(node.operand, depth + 1)
                if isinstance(node.op, ast.USub) and isinstance(one.value, int | float):
                    literal = isinstance(node.operand, ast.Constant)
                    return Value(-one.value, place if literal else None, one.opens)
                if isinstance(node.op, ast.Not):
                    return Value(not one.value, None, one.opens)
                raise OpenError((self.open(node),))
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            act = ACTS.get(type(node.op))
            if act is None or not _small(node.op, left.value, right.value):
                raise OpenError((self.open(node),))
            alone = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
            made = act(left.value, right.value)
            return Value(made, place if alone else None, _opens([left, right]))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise OpenError((self.open(node),)) from error

    def _either(self, left: ast.expr, right: ast.expr, depth: int) -> Value:
        """``args.x or 8``: 8 for want of another word."""
        other = self.value(right, depth + 1)
        try:
            made = self.value(left, depth + 1)
        except OpenError as error:
            opens = tuple(Open(one.name, str(other.value), one.place) for one in error.opens)
            return Value(other.value, other.place, (*other.opens, *opens))
        return made if made.value else other

    def _joined(self, node: ast.JoinedStr, depth: int) -> Value:
        text, opens = "", tuple[Open, ...]()
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            if (
                not isinstance(part, ast.FormattedValue)
                or part.format_spec
                or part.conversion != -1
                or len(text) > MOST_CHARACTERS
            ):
                raise OpenError((self.open(node),))
            made = self.value(part.value, depth + 1)
            text, opens = text + str(made.value), (*opens, *made.opens)
        return Value(text, None, opens)

    def _called(self, node: ast.Call, depth: int) -> Value:
        """``os.environ.get("X", "y")`` and conversions of it; nothing is ever called."""
        name = dotted(node.func)
        if name in ("int", "float", "str", "bool") and len(node.args) == 1 and not node.keywords:
            one = self.value(node.args[0], depth + 1)
            try:
                if isinstance(one.value, str) and len(one.value) > MOST_DIGITS and name != "str":
                    raise ValueError
                made = {"int": int, "float": float, "str": str, "bool": bool}[name](one.value)
            except (TypeError, ValueError, OverflowError) as error:
                raise OpenError((self.open(node),)) from error
            return Value(made, one.place if name == "str" else None, one.opens)
        if name in ("os.environ.get", "os.getenv", "environ.get", "getenv") and len(node.args) == 2:
            variable, default = (self.value(one, depth + 1) for one in node.args)
            one_open = Open(str(variable.value), str(default.value), default.place)
            return Value(default.value, default.place, (*default.opens, one_open))
        raise OpenError((self.open(node),))


def _opens(values: list[Value]) -> tuple[Open, ...]:
    return tuple(dict.fromkeys(one for value in values for one in value.opens))


def _size(values: list[Value]) -> int:
    return 1 + sum(one.size for one in values)


def _small(act: ast.operator, left: Any, right: Any) -> bool:
    """Whether the result stays a number or a text that anyone would write."""
    if isinstance(left, str) and isinstance(right, str):
        return isinstance(act, ast.Add) and len(left) + len(right) <= MOST_CHARACTERS
    if not all(isinstance(one, int | float) for one in (left, right)):
        return False
    if isinstance(act, ast.Pow):
        return bool(abs(right) <= MOST_DIGITS and abs(left) <= 2**16)
    return all(not isinstance(one, int) or one.bit_length() <= MOST_BITS for one in (left, right))
