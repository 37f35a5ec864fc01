"""Python scripts, read as a syntax tree: calls that build configurations, from literals."""

from __future__ import annotations

import ast
import operator
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from planner.importer.given import Call, Given, Open, Place, UnreadableError, bounded

MOST_CHARACTERS = 400_000
MOST_DEPTH = 60
MOST_VALUES = 10_000
"""In a list or mapping with all that is in it."""
MOST_ARGUMENTS = 100_000
"""Of all calls of a script."""
MOST_DIGITS = 64
"""Bits of an integer that arithmetic may make, and characters of a text in thousands."""
CALLS = re.compile(r"(\w*(Config|Arguments|Args|Trainer|Params|Plugin)|from_pretrained|LLM)$")
"""Names of calls that build what a run is made of; more by their own name: ``get_peft_model``."""
PARSERS = ("HfArgumentParser", "TrlParser")
OTHERS = frozenset(
    ("get_peft_model", "load_dataset", "Accelerator", "tokenizer", "Fire") + PARSERS
)
MADE_OF = re.compile(r"\w*(Config|Arguments|Args|Trainer)$")
"""Classes that a script's own are made of, where a call of those is a call of these."""
OPTIONS = "options"
"""The call of what the script's command line takes, by its defaults."""
CONSTANT = "PLAN"
"""A dictionary by which programs that are exported here take their settings."""
ACTS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class _OpenError(Exception):
    def __init__(self, opens: tuple[Open, ...]) -> None:
        super().__init__()
        self.opens = opens


class _Value:
    """What an expression makes, and where that stands."""

    def __init__(
        self,
        value: Any,
        place: Place | None,
        opens: tuple[Open, ...] = (),
        entries: tuple[Given, ...] = (),
        size: int = 1,
    ) -> None:
        self.value, self.place, self.opens, self.size = value, place, opens, size
        self.entries = entries  # of a dictionary, each with its own place


def read_python(text: str, name: str) -> tuple[Call, ...]:
    """Calls of a script that build configurations, in the order in which they stand.

    Literals, names that are assigned once or last above, and arithmetic of these are values; a
    name of an imported module (``torch.bfloat16``) is its own text. Anything else is open.

    Raises:
        UnreadableError: no Python, or over a bound.
    """
    bounded(text, name, MOST_CHARACTERS)
    text = text.replace("\r\n", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        why = getattr(error, "msg", None) or "it is nested too deeply"
        raise UnreadableError(name, line, f"this is no Python: {why}.") from error
    reader = _Reader(text, name)
    try:
        reader.block(tree.body)
    except RecursionError as error:
        raise UnreadableError(name, 1, "it is nested too deeply to be read.") from error
    return tuple(reader.calls)


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.lines = [0]
        for line in text.split("\n"):  # as the tree counts them: a form feed ends none
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.ascii = text.isascii()
        self.known: dict[str, _Value] = {}
        self.imported: set[str] = set()
        self.calls: list[Call] = []
        self.told = 0
        self.own: set[str] = set()  # classes that are made of one whose calls count
        self.under: tuple[Open, ...] = ()  # the conditions that a statement stands under

    def at(self, line: int, column: int) -> int:
        """The character of a line and a column in bytes."""
        start = self.lines[line - 1]
        if self.ascii:
            return start + column
        whole = self.text[start : self.lines[line]].encode("utf-8", "surrogatepass")
        return start + len(whole[:column].decode("utf-8", "surrogatepass"))

    def place(self, node: ast.expr) -> Place:
        start = self.at(node.lineno, node.col_offset)
        end = self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        form = "python'" if self.text.startswith("'", start) else "python"
        return Place(self.name, node.lineno, start, end, (form,))

    def block(self, body: list[ast.stmt]) -> None:
        """Statements in their order; what a branch, loop or function assigns stands behind it."""
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    self.imported.add((alias.asname or alias.name).split(".")[0])
            for expression in self._expressions(node):
                self.found(expression)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self.assign(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value:
                self.assign(node.target, node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.combined(node)
            elif isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
                for target in _targets(node):
                    self.forget(target)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                outside = dict(self.known)
                self.parameters(node.args)
                self.block(node.body)
                self.known = outside
                continue
            if isinstance(node, ast.ClassDef):
                outside = dict(self.known)
                self.made(node)
                self.block(node.body)
                self.known = outside
                continue
            taken = self.taken(node.test) if isinstance(node, ast.If) else None
            for kind in ("body", "orelse", "finalbody"):
                inner = getattr(node, kind, None)
                if isinstance(inner, list) and taken in (None, kind == "body"):
                    before, under = dict(self.known), self.under
                    if isinstance(node, ast.If) and taken is None and (shown := _condition(node)):
                        self.under = (*under, Open(shown, str(kind == "body")))
                    self.block(inner)
                    self.under = under
                    if isinstance(node, ast.If | ast.For | ast.While | ast.Try) and taken is None:
                        self.differing(before, node)
            for handler in getattr(node, "handlers", ()):
                self.block(handler.body)
            for case in getattr(node, "cases", ()):
                self.block(case.body)

    def _expressions(self, node: ast.stmt) -> list[ast.AST]:
        inside = ast.iter_child_nodes(node)
        return [one for one in inside if isinstance(one, ast.expr | ast.withitem)]

    def found(self, tree: ast.AST) -> None:
        """Calls in an expression, outermost first; of a choice, with what each side rests on."""
        waiting = [tree]
        for node in waiting:
            if isinstance(node, ast.IfExp):
                self.chosen(node)
                continue
            waiting += ast.iter_child_nodes(node)
            if isinstance(node, ast.Call) and (name := _dotted(node.func)):
                last = name.rpartition(".")[2]
                if CALLS.search(last) or last in OTHERS or last in self.own:
                    self.calls.append(self.call(name, node))
                elif last == "add_argument":
                    self.option(node)

    def chosen(self, node: ast.IfExp) -> None:
        """Calls of ``this if that else other``."""
        self.found(node.test)
        taken, under = self.taken(node.test), self.under
        for side, truth in ((node.body, True), (node.orelse, False)):
            if taken is None:
                self.under = (*under, Open(ast.unparse(node.test)[:200], str(truth)))
            if taken in (None, truth):
                self.found(side)
            self.under = under

    def taken(self, test: ast.expr) -> bool | None:
        """Whether a condition holds; None where the text does not say."""
        try:
            made = self.value(test, 0)
        except _OpenError:
            return None
        plain = made.value is None or isinstance(made.value, int | float)
        return bool(made.value) if plain and not made.opens else None

    def made(self, node: ast.ClassDef) -> None:
        """A class of the script: what it is made of, its methods, and a dataclass's defaults."""
        names = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
        for base in map(_dotted, node.bases):
            if MADE_OF.fullmatch(last := base.rpartition(".")[2]):
                self.own.add(node.name)
                self.calls.append(Call(f"class {node.name}", (Given(last, names),)))
        plain = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
        if not any(_dotted(one).endswith("dataclass") for one in plain):
            return
        for one in node.body:
            if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
                continue
            value = one.value
            if isinstance(value, ast.Call) and _dotted(value.func).endswith("field"):
                factory = _keyword(value, "default_factory")
                made = factory.body if isinstance(factory, ast.Lambda) else factory
                value = made or _keyword(value, "default")
            if value is not None:  # else it has to be said
                self.defaulted(one.target.id, value)

    def option(self, node: ast.Call) -> None:
        """An option that argparse takes, by its default."""
        names = [one.value for one in node.args if isinstance(one, ast.Constant)]
        long = next((str(one) for one in names if str(one).startswith("--")), "")
        name = _keyword(node, "dest")
        told = name.value if isinstance(name, ast.Constant) else long.removeprefix("--")
        action = _keyword(node, "action")
        set_true = isinstance(action, ast.Constant) and action.value == "store_true"
        default = ast.copy_location(ast.Constant(False), node) if set_true else None
        self.defaulted(str(told).replace("-", "_"), _keyword(node, "default") or default)

    def defaulted(self, name: str, node: ast.expr | None) -> None:
        """An option of the script, which is None where nobody says more."""
        if name:
            made = self.given(name, node) if node is not None else Given(name, None)
            self.calls.append(Call(OPTIONS, (made,)))

    def call(self, name: str, node: ast.Call) -> Call:
        givens = [self.given(str(at), one) for at, one in enumerate(node.args)]
        for keyword in node.keywords:
            if keyword.arg is not None:
                givens.append(self.given(keyword.arg, keyword.value))
            else:
                givens.extend(self.spread(keyword.value))
        stop = self.at(node.end_lineno or node.lineno, node.end_col_offset or 0) - 1
        last = max((self.place(one).end for one in self.arguments(node)), default=stop)
        if not self.arguments(node):
            last = stop
        line = bisect_right(self.lines, last)
        end = Place(self.name, line, last, last, ("python argument",))
        self.told += len(givens)
        if self.told > MOST_ARGUMENTS:
            message = f"its calls have more than {MOST_ARGUMENTS:,} arguments. Give the part "
            raise UnreadableError(self.name, node.lineno, f"{message}that starts the run.")
        rests = [replace(one, opens=(*one.opens, *self.under)) for one in givens]
        return Call(name, tuple(rests), end)

    def arguments(self, node: ast.Call) -> list[ast.expr]:
        return [*node.args, *(keyword.value for keyword in node.keywords)]

    def given(self, name: str, node: ast.expr) -> Given:
        try:
            made = self.value(node, 0)
        except _OpenError as error:
            shown = self.text[self.place(node).start : self.place(node).end][:200]
            return Given(name, shown, self.place(node), error.opens)
        return Given(name, made.value, made.place, made.opens, made.entries)

    def spread(self, node: ast.expr) -> list[Given]:
        """``**settings``: entries of a known dictionary, else one open value."""
        literal = node if isinstance(node, ast.Dict) else None
        if literal is None:
            made = self.given("**", node)
            if isinstance(made.value, dict) and not made.opens:
                entries = self.value(node, 0).entries
                return [*entries] or [Given(str(key), one) for key, one in made.value.items()]
            return [made]
        found = []
        for key, value in zip(literal.keys, literal.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.append(self.given(key.value, value))
            elif key is None:
                found.extend(self.spread(value))
        return found

    def assign(self, target: ast.expr, node: ast.expr) -> None:
        several = ast.Tuple | ast.List
        if isinstance(target, several) and isinstance(node, several):
            for one, value in zip(target.elts, node.elts, strict=False):
                self.assign(one, value)
            return
        if not isinstance(target, ast.Name):
            self.forget(target)
            return
        if target.id == CONSTANT and isinstance(node, ast.Dict) and node.values:
            last = self.place(node.values[-1])
            line = bisect_right(self.lines, last.end)
            end = Place(self.name, line, last.end, last.end, ("python entry",))
            self.calls.append(Call(CONSTANT, tuple(self.spread(node)), end))
        try:
            self.known[target.id] = self.value(node, 0)
        except _OpenError as error:
            self.known[target.id] = _Value(None, None, error.opens)

    def combined(self, node: ast.AugAssign) -> None:
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        before = ast.copy_location(ast.Name(name, ast.Load()), node)
        both = ast.BinOp(before, node.op, node.value)
        self.assign(node.target, ast.copy_location(both, node))

    def forget(self, target: ast.expr) -> None:
        """What takes a value that is not known; of an attribute or an item its owner."""
        itself = isinstance(target, ast.Name | ast.Tuple | ast.List)
        for one in ast.walk(target):
            if isinstance(one, ast.Name) and (itself or one.id in self.known):
                self.known[one.id] = _Value(None, None, (self.open(one),))

    def parameters(self, arguments: ast.arguments) -> None:
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for one in (*named, *filter(None, (arguments.vararg, arguments.kwarg))):
            self.known[one.arg] = _Value(None, None, (Open(one.arg),))
        plain = [*arguments.posonlyargs, *arguments.args]
        plain = plain[len(plain) - len(arguments.defaults) :]
        defaults: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(plain, arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, node in defaults:
            if node is None:
                continue
            made = self.given(argument.arg, node)
            if all(each.default is not None for each in made.opens):
                opens = (*made.opens, Open(argument.arg, str(made.value), made.place))
                self.known[argument.arg] = _Value(made.value, made.place, opens)

    def differing(self, before: Mapping[str, _Value], node: ast.stmt) -> None:
        """What a branch changed rests on whether it is taken."""
        shown = _condition(node)
        if not shown:
            return
        for name, value in self.known.items():
            if before.get(name) is not value and not any(o.name == shown for o in value.opens):
                known = all(one.default is not None for one in value.opens)
                one = Open(shown, "True" if known else None)
                self.known[name] = _Value(value.value, value.place, (*value.opens, one))

    def open(self, node: ast.expr, default: str | None = None) -> Open:
        place = self.place(node)
        return Open(self.text[place.start : place.end][:200], default, place)

    def value(self, node: ast.expr, depth: int) -> _Value:
        """What an expression makes; raises _OpenError where that is not in the text."""
        if depth > MOST_DEPTH:
            raise UnreadableError(self.name, node.lineno, "it is nested too deeply to be read.")
        place = self.place(node)
        if isinstance(node, ast.Constant):
            return _Value(node.value, place)
        if isinstance(node, ast.Name):
            return self.named(node)
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            if dotted and dotted.split(".")[0] in self.imported:
                return _Value(dotted, place)
            raise _OpenError((self.open(node),))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            made = [self.value(one, depth + 1) for one in node.elts]
            kind = list if isinstance(node, ast.List) else tuple
            size = self.sized(node, made)
            return _Value(kind(one.value for one in made), place, _opens(made), size=size)
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            values = [self.value(one, depth + 1) for one in node.values]
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            made_of = dict(zip(keys, (one.value for one in values), strict=True))
            named = zip(map(str, keys), values, strict=True)
            entries = tuple(_entry(key, one) for key, one in named)
            return _Value(made_of, place, _opens(values), entries, self.sized(node, values))
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            return self.calculated(node, depth)
        if isinstance(node, ast.JoinedStr):
            return self.joined(node, depth)
        if isinstance(node, ast.Call):
            return self.called(node, depth)
        raise _OpenError((self.open(node),))

    def sized(self, node: ast.expr, values: list[_Value]) -> int:
        """How much is in these, one within the other; more than anybody writes is not read."""
        size = 1 + sum(one.size for one in values)
        if size > MOST_VALUES:
            raise _OpenError((self.open(node),))
        return size

    def named(self, node: ast.Name) -> _Value:
        known = self.known.get(node.id)
        if known is None:
            if node.id in self.imported:
                return _Value(node.id, self.place(node))
            raise _OpenError((self.open(node),))
        if any(one.default is None for one in known.opens):
            raise _OpenError(known.opens)
        return known

    def calculated(self, node: ast.UnaryOp | ast.BinOp, depth: int) -> _Value:
        place = self.place(node)
        try:
            if isinstance(node, ast.UnaryOp):
                one = self.value(node.operand, depth + 1)
                if isinstance(node.op, ast.USub) and isinstance(one.value, int | float):
                    literal = isinstance(node.operand, ast.Constant)
                    return _Value(-one.value, place if literal else None, one.opens)
                if isinstance(node.op, ast.Not):
                    return _Value(not one.value, None, one.opens)
                raise _OpenError((self.open(node),))
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            act = ACTS.get(type(node.op))
            if act is None or not _small(node.op, left.value, right.value):
                raise _OpenError((self.open(node),))
            alone = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
            made = act(left.value, right.value)
            return _Value(made, place if alone else None, _opens([left, right]))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise _OpenError((self.open(node),)) from error

    def joined(self, node: ast.JoinedStr, depth: int) -> _Value:
        text, opens = "", tuple[Open, ...]()
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            if not isinstance(part, ast.FormattedValue) or part.format_spec:
                raise _OpenError((self.open(node),))
            if part.conversion != -1:
                raise _OpenError((self.open(node),))
            made = self.value(part.value, depth + 1)
            if len(text) > 1000 * MOST_DIGITS:
                raise _OpenError((self.open(node),))
            text, opens = text + str(made.value), (*opens, *made.opens)
        return _Value(text, None, opens)

    def called(self, node: ast.Call, depth: int) -> _Value:
        """``os.environ.get("X", "y")`` and conversions of it; nothing is ever called."""
        name = _dotted(node.func)
        if name == "dict" and not node.args and all(one.arg for one in node.keywords):
            named = {str(one.arg): self.value(one.value, depth + 1) for one in node.keywords}
            entries = tuple(_entry(key, one) for key, one in named.items())
            values, size = [*named.values()], self.sized(node, [*named.values()])
            made_of = {key: one.value for key, one in named.items()}
            return _Value(made_of, None, _opens(values), entries, size)
        if name in ("int", "float", "str", "bool") and len(node.args) == 1 and not node.keywords:
            one = self.value(node.args[0], depth + 1)
            try:
                if isinstance(one.value, str) and len(one.value) > MOST_DIGITS and name != "str":
                    raise ValueError
                made = {"int": int, "float": float, "str": str, "bool": bool}[name](one.value)
            except (TypeError, ValueError, OverflowError) as error:
                raise _OpenError((self.open(node),)) from error
            return _Value(made, one.place if name == "str" else None, one.opens)
        if name in ("os.environ.get", "os.getenv", "environ.get", "getenv") and len(node.args) == 2:
            variable, default = (self.value(one, depth + 1) for one in node.args)
            one_open = Open(str(variable.value), str(default.value), default.place)
            return _Value(default.value, default.place, (*default.opens, one_open))
        raise _OpenError((self.open(node),))


def _condition(node: ast.stmt) -> str:
    """What a branch or a loop rests on; empty for what every program does."""
    test = getattr(node, "test", None) or getattr(node, "iter", None)
    shown = ast.unparse(test)[:200] if test is not None else "try"
    return "" if shown == "__name__ == '__main__'" else shown


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    """An argument of a call by its name."""
    return next((one.value for one in node.keywords if one.arg == name), None)


def _entry(name: str, value: _Value) -> Given:
    return Given(name, value.value, value.place, value.opens, value.entries)


def _targets(node: ast.stmt) -> list[ast.expr]:
    """What a loop or a ``with`` assigns."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.target]
    items = getattr(node, "items", ())
    return [item.optional_vars for item in items if item.optional_vars]


def _dotted(node: ast.AST) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 20:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _opens(values: list[_Value]) -> tuple[Open, ...]:
    return tuple(dict.fromkeys(one for value in values for one in value.opens))


def _small(act: ast.operator, left: Any, right: Any) -> bool:
    """Whether the result stays a number or a text that anyone would write."""
    if isinstance(left, str) and isinstance(right, str):
        return isinstance(act, ast.Add) and len(left) + len(right) <= 1000 * MOST_DIGITS
    if not all(isinstance(one, int | float) for one in (left, right)):
        return False
    if isinstance(act, ast.Pow):
        return bool(abs(right) <= MOST_DIGITS and abs(left) <= 2**16)
    return all(not isinstance(one, int) or one.bit_length() <= 4096 for one in (left, right))
