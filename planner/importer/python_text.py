"""Python scripts, read as a syntax tree: calls that build configurations, from literals."""

from __future__ import annotations

import ast
import re
import warnings
from collections import deque
from dataclasses import replace

from planner.importer.given import Call, Given, Open, Place, UnreadableError, bounded
from planner.importer.python_branches import Branches, below
from planner.importer.python_options import dotted, fields_of, options_of
from planner.importer.python_values import Value

MOST_CHARACTERS = 400_000
CALLS = re.compile(r"(\w*(Config|Arguments|Args|Trainer|Params|Plugin)|from_pretrained|LLM)$")
"""Names of calls that build what a run is made of; more by their own name: ``get_peft_model``."""
BUILT = re.compile(r"(Config|Arguments|Args|Params)$")
"""Of these what is set afterwards is a setting, as their arguments are."""
OWNERS = re.compile(r"training_\w+")
"""Names of configurations that a parser builds and a script changes afterwards."""
OWN_CLASS = "class"
"""Of a call of a trainer that the script itself makes of another: its name, as no argument has it;
below it, by its name, each method that it has of its own."""
OPTIONS = "options"
"""A call of what the script's own command takes, by name."""
CONSTANT = "PLAN"
"""A dictionary that programs of ours have their constants in: told as a call, entry by entry."""
CHANGING = frozenset(("update", "pop", "popitem", "clear", "setdefault", "__setitem__"))
"""What changes a dictionary."""
OTHERS = frozenset(
    ("get_peft_model", "load_dataset", "Accelerator", "tokenizer", "HfArgumentParser", "TrlParser")
)


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
    reader.options = options_of(tree)
    if reader.options.declared:
        declared = (Given(name, None) for name in reader.options.declared)
        reader.calls.append(Call(OPTIONS, tuple(declared)))
    try:
        reader.block(tree.body)
    except RecursionError as error:
        raise UnreadableError(name, 1, "it is nested too deeply to be read.") from error
    return tuple(reader.calls)


class _Reader(Branches):
    """Follows statements, and gathers calls."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.depth = 0
        """Blocks within each other; those below the first may not run, or run later."""
        self.calls: list[Call] = []
        self.bases: dict[str, str] = {}
        """Of classes of the script's own, what they are made of."""
        self.methods: dict[str, set[str]] = {}
        """Of those that are trainers, what they do otherwise."""
        self.built: dict[str, int] = {}
        """Names of what a call has made, whose attributes are settings as its arguments are."""
        self.made: dict[int, int] = {}

    def block(self, body: list[ast.stmt]) -> None:
        """Statements in their order; what a branch, loop or function assigns stands behind it."""
        self.depth += 1
        for node in body:
            self.effort.reach(self, self.lines[node.lineno - 1])
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    self.imported.add((alias.asname or alias.name).split(".")[0])
            if isinstance(node, ast.ClassDef):
                self.made_of(node)
            for inside in ast.iter_child_nodes(node):
                if isinstance(inside, ast.expr | ast.withitem):
                    self.found(inside)
            self.tabled(node)
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
                self.parameters(node.args, "--" * (node.name in self.options.functions))
                self.block(node.body)
                self.known = outside
                continue
            self.branches(node)
            for handler in getattr(node, "handlers", ()):
                self.block(handler.body)
            for case in getattr(node, "cases", ()):
                self.block(case.body)
        self.depth -= 1

    def made_of(self, node: ast.ClassDef) -> None:
        """A class that the script makes of a library's."""
        known = [dotted(one).rpartition(".")[2] for one in node.bases]
        of = next((one for one in known if one in self.bases or CALLS.search(one)), "")
        base = self.bases.get(of, of)
        self.bases |= {node.name: base} if base else {}
        self.declared(base, node)
        if base.endswith("Trainer"):
            has = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            self.methods[node.name] = has | self.methods.get(of, set())
            self.effort.spend(len(self.methods[node.name]))

    def declared(self, base: str, node: ast.ClassDef) -> None:
        """A configuration of the script's own: its defaults, each of which a command can say."""
        givens = []
        for name, default in fields_of(node) if base and not base.endswith("Trainer") else ():
            made = None if default is None else self.given(name, default)
            if made is None or any(one.default is None for one in made.opens):
                givens.append(Given(name, None, None, (Open(f"--{name}"),)))
            else:
                said = Open(f"--{name}", str(made.value), made.place)
                givens.append(replace(made, opens=(*made.opens, said)))
        if givens:
            self.calls.append(Call(base, tuple(givens)))

    def tabled(self, node: ast.stmt) -> None:
        """The table of constants, or an entry of it anew; what else changes it is open."""
        changed = next((one for one in _changed(node) if dotted(_owner(one)) == CONSTANT), None)
        if changed is None:
            return
        value, name, end = getattr(node, "value", None), "**", None
        givens: list[Given] = []
        if isinstance(changed, ast.Subscript) and isinstance(changed.slice, ast.Constant):
            name = str(changed.slice.value)
            givens = [self.given(name, node.value)] if isinstance(node, ast.Assign) else []
        elif isinstance(changed, ast.Name) and value is not None:
            givens = self.spread(value)
            if isinstance(value, ast.Dict) and value.values:
                at = self.place(value.values[-1]).end
                end = Place(self.name, self.line(at), at, at, ("python entry",))
        if self.depth > 1 or not givens:
            place = self.place(node)
            shown = self.text[place.start : place.end][:200]
            givens = [Given(name, shown, place, (Open(shown, None, place),))]
        self.calls.append(Call(CONSTANT, tuple(givens), end))

    def found(self, tree: ast.AST) -> None:
        """Calls in an expression, outermost first; those of ``a if b else c`` rest on it."""
        outside, left = self.under, deque([(tree, self.under)])
        while left:
            node, self.under = left.popleft()
            if isinstance(node, ast.IfExp):
                left += [(node.test, self.under), *self.chosen(node)]
                continue
            left += ((one, self.under) for one in ast.iter_child_nodes(node))
            if isinstance(node, ast.Call) and (name := dotted(node.func)):
                last = name.rpartition(".")[2]
                if CALLS.search(last) or last in OTHERS or last in self.bases:
                    self.made[id(node)] = len(self.calls)
                    self.calls.append(self.call(name, node))
                if last == "update":
                    self.updated(name.rpartition(".")[0], node)
        self.under = outside

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
        base = self.bases.get(name)
        own = [
            Given(f"{OWN_CLASS}{method and '.'}{method}", name, self.place(node.func))
            for method in ("", *sorted(self.methods.get(name, ())))
            if name in self.methods
        ]
        self.effort.spend(len(own))
        givens = [below(one, self.under) for one in givens]
        return Call(base or name, (*own, *givens), end)

    def arguments(self, node: ast.Call) -> list[ast.expr]:
        return [*node.args, *(keyword.value for keyword in node.keywords)]

    def assign(self, target: ast.expr, node: ast.expr) -> None:
        several = ast.Tuple | ast.List
        if isinstance(target, several) and isinstance(node, several):
            for one, value in zip(target.elts, node.elts, strict=False):
                self.assign(one, value)
            return
        if isinstance(target, ast.Subscript) and self.entered(target, node):
            return
        if isinstance(target, ast.Attribute) and self.configured(target, node):
            return
        if not isinstance(target, ast.Name):
            self.forget(target)
            return
        self.built.pop(target.id, None)
        if id(node) in self.made and BUILT.search(self.calls[self.made[id(node)]].name):
            self.built[target.id] = self.made[id(node)]
        self.known[target.id] = self.held(node)

    def configured(self, target: ast.Attribute, node: ast.expr) -> bool:
        """``args.beta = …`` behind ``args = GRPOConfig(…)``: the last word counts."""
        owner = dotted(target.value)
        at = self.built.get(owner)
        if at is None and not OWNERS.fullmatch(owner):
            return False
        made = [below(one, self.under) for one in self.named(target.attr, node)]
        if at is None:
            self.calls.append(Call(owner, tuple(made)))
        else:
            call = self.calls[at]
            others = (one for one in call.givens if one.name != target.attr)
            self.calls[at] = replace(call, givens=(*others, *made))
        return True

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

    def parameters(self, arguments: ast.arguments, dashes: str) -> None:
        """What a function is given; behind dashes where a command gives it."""
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for one in (*named, *filter(None, (arguments.vararg, arguments.kwarg))):
            self.known[one.arg] = Value(None, None, (Open(dashes + one.arg),))
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
                opens = (*made.opens, Open(dashes + argument.arg, str(made.value), made.place))
                self.known[argument.arg] = Value(made.value, made.place, opens)

def _targets(node: ast.stmt) -> list[ast.expr]:
    """What a loop or a ``with`` assigns."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.target]
    items = getattr(node, "items", ())
    return [item.optional_vars for item in items if item.optional_vars]


def _changed(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns, deletes, or changes by a call."""
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return [node.target]
    called = getattr(getattr(node, "value", None), "func", None)
    return [called] if isinstance(called, ast.Attribute) and called.attr in CHANGING else []


def _owner(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript | ast.Attribute) else node
