"""Python scripts, read as a syntax tree: calls that build configurations, from literals."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.importer.given import Call, Given, Open, Place, UnreadableError, bounded
from planner.importer.python_values import OpenError, Value, Values, dotted

MOST_CHARACTERS = 400_000
CALLS = re.compile(r"(\w*(Config|Arguments|Args|Trainer|Params|Plugin)|from_pretrained|LLM)$")
"""Names of calls that build what a run is made of; more by their own name: ``get_peft_model``."""
OTHERS = frozenset(("get_peft_model", "load_dataset", "Accelerator"))
OWNERS = re.compile(r"training_\w+")
"""Names of configurations whose settings a script changes once they are built."""


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


class _Reader(Values):
    """Follows statements, and gathers calls."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.calls: list[Call] = []
        self.entries: dict[str, tuple[Given, ...]] = {}
        """Of mappings, each entry as far as the text says it."""

    def block(self, body: list[ast.stmt]) -> None:
        """Statements in their order; what a branch, loop or function assigns stands behind it."""
        for node in body:
            self.effort.reach(self, self.lines[node.lineno - 1])
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
                outside = self.before()
                self.parameters(node.args)
                self.block(node.body)
                self.known, self.entries = outside
                continue
            for kind in ("body", "orelse", "finalbody"):
                inner = getattr(node, kind, None)
                if inner and isinstance(inner, list):
                    before = self.before()
                    self.block(inner)
                    if isinstance(node, ast.If | ast.For | ast.While | ast.Try):
                        self.differing(before, node)
            for handler in getattr(node, "handlers", ()):
                self.block(handler.body)
            for case in getattr(node, "cases", ()):
                self.block(case.body)

    def before(self) -> tuple[dict[str, Value], dict[str, tuple[Given, ...]]]:
        """What is known, to be looked at again behind a branch."""
        self.effort.spend((len(self.known) + len(self.entries)) // 64)
        return dict(self.known), dict(self.entries)

    def _expressions(self, node: ast.stmt) -> list[ast.AST]:
        inside = ast.iter_child_nodes(node)
        return [one for one in inside if isinstance(one, ast.expr | ast.withitem)]

    def found(self, tree: ast.AST) -> None:
        """Calls in an expression, outermost first."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := dotted(node.func)):
                last = name.rpartition(".")[2]
                if CALLS.search(last) or last in OTHERS:
                    self.calls.append(self.call(name, node))
                elif last == "add_argument":
                    self.calls.append(self.declared(name, node))

    def declared(self, name: str, node: ast.Call) -> Call:
        """``add_argument("--x", default=8)`` as a call with that default under the name of x."""
        words = [one.value for one in node.args if isinstance(one, ast.Constant)]
        options = [one for one in words if isinstance(one, str)]
        said = {one.arg: one.value for one in node.keywords}
        long = next((one for one in options if one.startswith("--")), "".join(options[:1]))
        if "default" in said:
            made = self.given("", said["default"])
        elif isinstance(how := said.get("action"), ast.Constant) and how.value == "store_true":
            made = Given("", False)
        else:
            made = Given("", None)
        if made.value is not None and not made.opens:
            made = replace(made, opens=(Open(long, str(made.value), made.place),))
        return Call(name, (replace(made, name=long.lstrip("-").replace("-", "_")),))

    def call(self, name: str, node: ast.Call) -> Call:
        givens = [self.given(str(at), one) for at, one in enumerate(node.args)]
        for keyword in node.keywords:
            if keyword.arg is not None:
                givens.extend(self.named(keyword.arg, keyword.value))
            else:
                givens.extend(self.spread(keyword.value))
        stop = self.at(node.end_lineno or node.lineno, node.end_col_offset or 0) - 1
        last = max((self.place(one).end for one in self.arguments(node)), default=stop)
        end = Place(self.name, self.line(last), last, last, ("python argument",))
        return Call(name, tuple(givens), end)

    def arguments(self, node: ast.Call) -> list[ast.expr]:
        return [*node.args, *(keyword.value for keyword in node.keywords)]

    def given(self, name: str, node: ast.expr) -> Given:
        try:
            made = self.value(node)
        except OpenError as error:
            shown = self.text[self.place(node).start : self.place(node).end][:200]
            return Given(name, shown, self.place(node), error.opens)
        return Given(name, made.value, made.place, made.opens)

    def named(self, name: str, node: ast.expr) -> Sequence[Given]:
        """One setting; of a mapping that is known in parts each entry."""
        made = self.given(name, node)
        inside = self.mapping(node) if any(one.default is None for one in made.opens) else None
        if inside is None:
            return (made,)
        return [replace(one, name=f"{name}.{one.name}") for one in inside]

    def spread(self, node: ast.expr) -> Sequence[Given]:
        """``**settings``: entries of a mapping, else one open value."""
        inside = self.mapping(node)
        return (self.given("**", node),) if inside is None else inside

    def mapping(self, node: ast.expr) -> tuple[Given, ...] | None:
        """Entries of ``{…}``, ``dict(…)`` or a name for one; None: it is none that is known."""
        if isinstance(node, ast.Name):
            return self.entries.get(node.id)
        found: list[Given] = []
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found.append(self.given(key.value, value))
                elif key is None:
                    found.extend(self.spread(value))
        elif isinstance(node, ast.Call) and dotted(node.func) == "dict" and not node.args:
            for keyword in node.keywords:
                if keyword.arg is None:
                    found.extend(self.spread(keyword.value))
                else:
                    found.append(self.given(keyword.arg, keyword.value))
        else:
            return None
        self.effort.spend(len(found))
        return tuple(found)

    def assign(self, target: ast.expr, node: ast.expr) -> None:
        several = ast.Tuple | ast.List
        if isinstance(target, several) and isinstance(node, several):
            for one, value in zip(target.elts, node.elts, strict=False):
                self.assign(one, value)
            return
        if not isinstance(target, ast.Name):
            self.changed(target, node)
            return
        self.entries.pop(target.id, None)
        if (inside := self.mapping(node)) is not None:
            self.entries[target.id] = inside
        try:
            self.known[target.id] = self.value(node)
        except OpenError as error:
            self.known[target.id] = Value(None, None, error.opens)

    def changed(self, target: ast.expr, node: ast.expr) -> None:
        """``settings["beta"] = 0`` is a further entry, ``training_args.beta = 0`` a setting."""
        owner = target.value if isinstance(target, ast.Subscript | ast.Attribute) else None
        inside = self.entries.get(owner.id) if isinstance(owner, ast.Name) else None
        self.forget(target)
        if isinstance(target, ast.Attribute) and OWNERS.fullmatch(name := dotted(target.value)):
            self.calls.append(Call(name, (*self.named(target.attr, node),)))
        elif isinstance(target, ast.Subscript) and isinstance(owner, ast.Name):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else None
            self.entries.pop(owner.id, None)
            if inside is not None and isinstance(key, str):
                self.effort.spend(len(inside) // 16)
                self.entries[owner.id] = (*inside, self.given(key, node))

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
                self.known[one.id] = Value(None, None, (self.open(one),))
                if itself:
                    self.entries.pop(one.id, None)

    def parameters(self, arguments: ast.arguments) -> None:
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for one in (*named, *filter(None, (arguments.vararg, arguments.kwarg))):
            self.known[one.arg] = Value(None, None, (Open(one.arg),))
            self.entries.pop(one.arg, None)
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
                self.known[argument.arg] = Value(made.value, made.place, opens)

    def differing(
        self, before: tuple[Mapping[str, Value], Mapping[str, tuple[Given, ...]]], node: ast.stmt
    ) -> None:
        """What a branch changed rests on whether it is taken."""
        test = getattr(node, "test", None) or getattr(node, "iter", None)
        shown = ast.unparse(test)[:200] if test is not None else "try"
        if shown == "__name__ == '__main__'":
            return
        for name, inside in self.entries.items():
            if (had := before[1].get(name, ())) is not inside:
                self.effort.spend(len(inside) // 16)
                kept, rests = len(had) if inside[: len(had)] == had else 0, Open(shown, "True")
                added = (replace(one, opens=(*one.opens, rests)) for one in inside[kept:])
                self.entries[name] = (*inside[:kept], *added)
        for name, value in self.known.items():
            if before[0].get(name) is not value and not any(o.name == shown for o in value.opens):
                known = all(one.default is not None for one in value.opens)
                one = Open(shown, "True" if known else None)
                self.known[name] = Value(value.value, value.place, (*value.opens, one))


def _targets(node: ast.stmt) -> list[ast.expr]:
    """What a loop or a ``with`` assigns."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.target]
    items = getattr(node, "items", ())
    return [item.optional_vars for item in items if item.optional_vars]
