"""What knows what among the parts of the planner: its folders, and the modules beside them."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the planner by its dotted name."""
    found = {}
    for path in sorted((ROOT / "planner").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def part(module: str) -> str:
    """The folder, or the module beside the folders, that a module is of: ``plan``."""
    return module.split(".")[1] if "." in module else "__init__"


def named_in(path: Path) -> frozenset[str]:
    """The planner's modules that a file names: by an import wherever it stands, or as a text.

    Imports inside functions and for types alone count; so does a text that is a module's whole
    name, or how one begins, since whoever has it can import that.
    """
    return frozenset(name for name, _ in _names(path))


def imported_in(path: Path) -> frozenset[str]:
    """Those that it imports."""
    return frozenset(name for name, imported in _names(path) if imported)


@cache
def _names(path: Path) -> tuple[tuple[str, bool], ...]:
    """Modules of the planner, each with whether it is imported."""
    found = _found(ast.parse(path.read_text("utf-8")))
    return tuple((name, imported) for name, imported in found if name in modules())


def _found(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, True) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules() else node.module, True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.rstrip(".")
            yield text if "." in text else "", False


def imported_by_name(path: Path) -> Iterator[str]:
    """What a file imports by a name that it puts together, as its code says it."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if "import_module(" in text else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield ast.unparse(node.args[0])


@cache
def arrows() -> Mapping[tuple[str, str], frozenset[str]]:
    """For each part that knows another: the modules in which it does."""
    found = defaultdict(set)
    for module, path in modules().items():
        for other in named_in(path):
            if part(other) != part(module):
                found[part(module), part(other)].add(module)
    return {pair: frozenset(where) for pair, where in found.items()}


def circles(known: Mapping[str, frozenset[str]]) -> list[frozenset[str]]:
    """Groups of parts of which each reaches all others of its group."""
    reached = {name: _reached(known, name) for name in known}
    groups = {
        frozenset(other for other in reached[name] if name in reached.get(other, frozenset()))
        for name in known
    }
    return sorted((group for group in groups if group), key=sorted)


def _reached(known: Mapping[str, frozenset[str]], start: str) -> frozenset[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        new = known.get(ahead.pop(), frozenset()) - seen
        seen |= new
        ahead.extend(new)
    return frozenset(seen)
