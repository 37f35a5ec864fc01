"""Writes a program of our own: the template with its pieces in place, and ``PLAN`` filled.

Everything of a plan enters as a Python literal, so that no value can be anything else.
"""

from __future__ import annotations

import ast
import shlex
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.catalog.gpu_catalog import custom_gpu, gpus
from planner.estimate import estimate
from planner.launch.script import comment
from planner.launch.templates import Constant, Decision
from planner.plan.facts import facts_of

PIECES = "planner.launch.pieces."
FOLDER = Path(__file__).with_name("pieces")
NAME = "PLAN"


def program_text(template: Path, decisions: Iterable[Decision], about: Iterable[str]) -> str:
    """The program of a template: comments, imports, ``PLAN``, pieces, then its own code.

    Args:
        template: a Python file with ``PLAN: … = {}``.
        decisions: what ``PLAN`` holds, in order.
        about: paragraphs that say what the program is of.
    """
    parts = [*_pieces(template, []), template]
    sources = {part: part.read_text("utf-8") for part in parts}
    trees = {part: ast.parse(sources[part]) for part in parts}
    filled = f"{NAME}: dict[str, Any] = {literal(decisions)}"
    bodies = [_body(sources[part], trees[part]) for part in parts]
    title = ast.get_docstring(trees[template], clean=True) or ""
    return "\n\n".join(
        [
            f'"""{title}\n"""\n\n{comment(*about)}',
            _imports(trees.values()),
            f"# What the plan decided; flags change some of it for one run.\n{filled}",
            *(f"\n{body}" for body in bodies),
        ]
    ).rstrip() + "\n"


def literal(decisions: Iterable[Decision]) -> str:
    """The decisions as a dict of Python literals, each reason above its entry."""
    rows = ["{"]
    for decision in decisions:
        rows += [
            *(f"    # {line}" for line in textwrap.wrap(decision.why, 92)),
            f'    "{decision.name}": {_quoted(decision.value)},',
        ]
    return "\n".join([*rows, "}"])


def _quoted(value: object) -> str:
    """An ASCII literal; with double quotes where every single one is a string's end."""
    if isinstance(value, list) and len(ascii(value)) > 60:
        return "".join(["[\n", *(f"        {_quoted(each)},\n" for each in value), "    ]"])
    text = ascii(value)
    return text if '"' in text or "\\" in text else text.replace("'", '"')


def _pieces(source: Path, found: list[Path]) -> list[Path]:
    """Files of the pieces that a file imports, each after those that it imports itself."""
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PIECES):
            piece = FOLDER / f"{str(node.module).removeprefix(PIECES)}.py"
            if piece not in found:
                _pieces(piece, found)
                found.append(piece)
    return found


def _body(source: str, tree: ast.Module) -> str:
    """A file's text without docstring, imports and ``PLAN``, comments and blank lines kept."""
    head = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == NAME)
    ]
    after = max((int(node.end_lineno or 0) for node in head), default=0)
    return "\n".join(source.splitlines()[after:]).strip("\n")


def _imports(trees: Iterable[ast.Module]) -> str:
    """All imports of the files, each once: the standard library's, then the others'."""
    whole: set[str] = set()
    names: dict[str, set[str]] = defaultdict(set)
    for node in (node for tree in trees for node in tree.body):
        if isinstance(node, ast.Import):
            whole |= {ast.unparse(ast.Import([alias])) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not str(node.module).startswith(PIECES):
            names[str(node.module)] |= {ast.unparse(alias) for alias in node.names}
    own = {f"from {module} import {', '.join(sorted(names[module]))}" for module in names}
    future = "from __future__ import annotations"
    groups = [[future], *_grouped(whole, own - {future})]
    return "\n\n".join("\n".join(group) for group in groups if group)


def _grouped(whole: set[str], own: set[str]) -> Iterator[list[str]]:
    for standard in (True, False):
        yield [
            line
            for lines in (sorted(whole), sorted(own))
            for line in lines
            if (line.split()[1].split(".")[0] in sys.stdlib_module_names) is standard
        ]


def _card(value: object, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The card of that name, and a budget that is not its own."""
    named = {card.name: card for card in (*gpus(), custom_gpu(1))}
    if value not in named:
        raise ValueError(f"{str(value)[:80]} is no card of the catalog; set gpu.")
    card, budget = named[str(value)], said["budget_bytes"]
    return {"gpu": card.key, "gpu_bytes": 0 if budget in (None, card.budget_bytes) else budget}


PREDICTED = (
    Constant(
        name="card",
        fields=("gpu", "gpu_bytes"),
        write=lambda plan: facts_of(plan).gpu.name,
        read=_card,
        why="The plan's card, its budget and the predicted peak; the preflight compares them "
        "with this machine's card.",
    ),
    Constant(name="budget_bytes", write=lambda plan: int(estimate(plan).budget_bytes)),
    Constant(name="predicted_device_bytes", write=lambda plan: int(estimate(plan).device_bytes)),
    Constant(
        name="predicted_reserved_bytes",
        write=lambda plan: max(int(phase.reserved_bytes) for phase in estimate(plan).phases),
    ),
    Constant(name="predicted_phase", write=lambda plan: estimate(plan).worst.name),
)
"""What the preflight compares a card with."""


def requirements(packages: Iterable[str]) -> str:
    """``requirements.txt``, of packages such as ``torch==2.13.0``."""
    return "\n".join(word for package in packages for word in shlex.split(package)) + "\n"
