"""Options that a Python script takes from its own command, and their defaults.

By argparse (``add_argument``), or as fields of a class that transformers' parser fills.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

PARSERS = re.compile("parse_(known_)?args(_and_config|_into_dataclasses)?")
"""What gives a script's options: argparse's, transformers' or TRL's, or a function around it."""

FIRE = "Fire"
"""What gives a command's options to a function."""
SWITCHES = {"store_true": False, "store_false": True}
"""Actions of an option that takes no word, and what it is until it is said."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as ``add_argument`` has it."""

    name: str
    """As the command says it: ``--batch-size``."""
    default: ast.expr | None
    """None: the command has to say it, or what it is else is not said."""
    switch: bool = False
    """Whether the default stands nowhere: a switch is off until it is said."""


@dataclass(slots=True)
class Options:
    """A script's own options by attribute, and the variables that hold what its parser returns."""

    known: dict[str, Option] = field(default_factory=dict)
    holders: set[str] = field(default_factory=set)
    """Names that what was parsed is assigned to: ``args``."""
    functions: set[str] = field(default_factory=set)
    """Functions whose parameters are the options: ``fire.Fire(train)``."""
    declared: list[str] = field(default_factory=list)
    """By ``add_argument``: whatever they are called, they are the script's own."""

    def of(self, name: str) -> Option | None:
        """The option that ``args.batch_size`` is."""
        holder, _, attribute = name.partition(".")
        return self.known.get(attribute) if holder in self.holders else None


def options_of(tree: ast.AST) -> Options:
    """All options of a script."""
    found = Options()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func).endswith(".add_argument"):
            _add(found, node)
        elif isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == FIRE:
            found.functions |= {dotted(one) for one in node.args}
        elif isinstance(node, ast.Assign) and _parses(node.value):
            taken = ast.walk(node.targets[0])
            found.holders |= {one.id for one in taken if isinstance(one, ast.Name)}
        elif isinstance(node, ast.ClassDef):
            for name, default in fields_of(node):
                found.known[name] = Option(f"--{name}", default)
    return found


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Fields of a dataclass that have a default, which is None where it is made by a call."""
    for one in node.body:
        if not isinstance(one, ast.AnnAssign):
            continue
        value = one.value
        if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] == "field":
            told = {each.arg: each.value for each in value.keywords}
            if "default" in told or "default_factory" in told:
                yield dotted(one.target), told.get("default")
        elif value is not None:
            yield dotted(one.target), value


def _parses(node: ast.expr) -> bool:
    func = node.func if isinstance(node, ast.Call) else node
    name = func.attr if isinstance(func, ast.Attribute) else dotted(func)
    return isinstance(node, ast.Call) and bool(PARSERS.fullmatch(name))


def _add(found: Options, node: ast.Call) -> None:
    told = {one.arg: one.value for one in node.keywords if one.arg}
    words = [one.value for one in node.args if isinstance(one, ast.Constant)]
    names = [one for one in words if isinstance(one, str) and one.startswith("--")]
    if not names:
        return
    attribute, default = names[0].removeprefix("--").replace("-", "_"), told.get("default")
    if isinstance(own := told.get("dest"), ast.Constant):
        attribute = str(own.value)
    action = told.get("action")
    word = str(action.value) if isinstance(action, ast.Constant) else ""
    switch = action is not None and default is None and word in SWITCHES
    if switch and action is not None:
        default = ast.copy_location(ast.Constant(SWITCHES[word]), action)
    found.known[attribute] = Option(names[0], default, switch)
    found.declared.append(names[0].removeprefix("--").replace("-", "_"))


def dotted(node: ast.AST) -> str:
    """A name with its attributes, ``a.b.c``; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 20:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
