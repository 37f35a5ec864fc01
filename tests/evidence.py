"""What expensive cases really gave, committed, and replayed while nothing that decides it changed.

A case has two sides: what the product says, computed and asserted in every run, and what a real
step, a model built by transformers, a dry run or a search gives, which takes seconds. The second
side stands in ``tests/evidence/FAMILY.json`` under a key: a hash of the source of every module
that computes it (what they import included; of the closed form what a step reads, or all where it
is what computes them), of the versions of the libraries, and of the case's own inputs.
Ordinary runs compute it anew for an eighth of each family's cases, which rotates as the sources
change, and wherever the key has changed; a figure computed anew has to be the committed one.
``--full`` computes all, ``--write-evidence`` with it writes the files.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "evidence"
ROOMS = ("planner", "accuracy", "tests")
"""Where the sources are that a hash covers."""
RECORD = ("attention", "decoder", "kernels", "linears", "norms", "operations", "setting", "tape")
CLOSED_FORM = (
    *("planner.formulas", "planner.phases", "planner.estimate", "planner.totals.levels"),
    *("planner.plan", "planner.cautions", "planner.sweeps.table", "planner.launch"),
)
"""What a plan and its estimate are made of: a plan's values stand in the key themselves."""
READ = (
    *("planner.formulas.logits", "planner.formulas.activations.liger", "planner.formulas.lora"),
    *("planner.formulas.parameters", "planner.formulas.polynomial", "planner.formulas.allocator"),
    *("planner.formulas.state", "planner.formulas.sharding", "planner.plan.facts"),
    *("planner.plan.trainers", "planner.launch.script", "planner.plan.loss"),
    *("planner.plan.frameworks", "planner.plan.methods", "planner.plan.references"),
    *("planner.plan.lengths", "planner.plan.fields.training", "planner.launch.huggingface"),
    *("planner.formulas.formula", "planner.formulas.activations.terms"),
    *(f"planner.formulas.activations.{name}" for name in RECORD),
)
"""Of it what a step and a dry run read: how many chunks or tiles a loss has, what is adapted.

The last two lines are the record of a layer, whose linear layers are what adapters can go on.
"""
DATA = ("planner/catalog", "planner/plan")
"""Where the tables are that the closed form reads: cards, models, kernels, presets."""
LIBRARIES = ("torch", "transformers", "peft")


def named(*patterns: str) -> tuple[str, ...]:
    """The modules of ``planner`` whose files match, for those that are imported by name."""
    return tuple(
        sorted(
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for pattern in patterns
            for path in (ROOT / "planner").glob(pattern)
        )
    )


STEPS = named("**/step.py", "methods/*/__init__.py", "frameworks/*/__init__.py")
"""The rooms of methods and frameworks, and the methods' own steps: all are imported by name."""
ONE_IN = 8

full = False
"""Whether every case is computed anew."""
gathered: dict[str, dict[str, Any]] = {}
"""What was computed in this process, by family and case, as it is committed."""
names: dict[str, list[str]] = {}
"""The cases that each family has, computed or not."""


class Evidence:
    """The committed figures of one family of cases.

    Args:
        family: the file's name.
        of: the modules that compute the figures.
        kinds: every case by name, with the kind whose eighth it belongs to.
        within: what another processor's kernels may make of a number, relative to it.
        closed_form: whether it is what computes them, so that all of it decides.
    """

    def __init__(
        self,
        family: str,
        of: Iterable[str],
        kinds: Mapping[str, str],
        within: float = 0.0,
        closed_form: bool = False,
    ):
        self.family, self.within = family, within
        names[family] = sorted(kinds)
        modules = tuple(of)
        gone = [module for module in modules if _path(module, closed_form) is None]
        assert not gone, f"{family}: {gone} have moved, and a hash must cover them"
        self.sources = sources_of(modules, closed_form)
        self.files = frozenset(files_of(modules, closed_form))
        self._kept: dict[str, Any] = {}
        if self._file.exists():
            self._kept = json.loads(self._file.read_text("utf-8"))
        self._live = frozenset(_some(kinds, self.sources))

    @property
    def _file(self) -> Path:
        return FOLDER / f"{self.family}.json"

    def kept(self, case: str, inputs: Any) -> Any:
        """The committed figures of a case that is replayed; None for one to be computed."""
        found = self._kept.get(case)
        if full or case in self._live or found is None or found["key"] != self._key(inputs):
            return None
        return found["figures"]

    def add(self, case: str, inputs: Any, figures: Any) -> None:
        """Compare what was computed with what is committed, and keep it for the file."""
        assert case in names[self.family], f"{self.family}: {case} is none of its cases"
        key, found = self._key(inputs), self._kept.get(case)
        twin = gathered.get(self.family, {}).get(case)
        assert twin is None or twin["key"] == key, f"{self.family}: two cases are called {case}"
        gathered.setdefault(self.family, {})[case] = {"key": key, "figures": figures}
        if found is not None and found["key"] == key and not full:
            assert _alike(found["figures"], figures, self.within), (
                f"{case} is not what {self._file.relative_to(ROOT)} says, and nothing that the "
                "file's key covers has changed: scripts/test --full --write-evidence"
            )

    def figures(self, case: str, inputs: Any, compute: Callable[[], Any]) -> Any:
        """A case's figures, committed or computed; plain JSON either way."""
        found = self.kept(case, inputs)
        if found is None:
            found = json.loads(json.dumps(compute()))
            self.add(case, inputs, found)
        return found

    def _key(self, inputs: Any) -> str:
        return _hash([self.sources, inputs])


def write() -> None:
    """Put what was computed into the files; cases that a family has no more go."""
    FOLDER.mkdir(exist_ok=True)
    for family, cases in gathered.items():
        path = FOLDER / f"{family}.json"
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
        found = {**kept, **cases}
        rows = [f"{json.dumps(n)}: {json.dumps(found[n])}" for n in names[family] if n in found]
        path.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def outdated() -> dict[str, int]:
    """By family, how many cases were computed anew because their key is not the committed one."""
    found = {}
    for family, cases in gathered.items():
        path = FOLDER / f"{family}.json"
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
        found[family] = sum(kept.get(name, {}).get("key") != cases[name]["key"] for name in cases)
    return {family: count for family, count in found.items() if count}


def _alike(one: Any, other: Any, within: float) -> bool:
    """Whether two JSON values are equal but for what numbers may be apart."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _alike(one[key], other[key], within) for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other, repeat(within)))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= within * abs(one)
    return bool(one == other)


def _some(kinds: Mapping[str, str], salt: str) -> Iterator[str]:
    """``ONE_IN``th of the cases of each kind, at least one, by a hash that the sources turn."""
    for kind in sorted(set(kinds.values())):
        cases = sorted((_hash([salt, case]), case) for case in kinds if kinds[case] == kind)
        yield from (case for _, case in cases[: -(-len(cases) // ONE_IN)])


def _hash(value: Any) -> str:
    said = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@cache
def files_of(modules: tuple[str, ...], closed_form: bool = False) -> dict[Path, str]:
    """Modules and all they import here: their files, and what these say without docstrings."""
    seen: dict[Path, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = _path(module, closed_form)
        if path is not None and path not in seen:
            seen[path], imported = _read(path)
            waiting += imported
            if closed_form:  # its package, which is imported before it
                waiting.append(module.rpartition(".")[0])
    return seen


@cache
def sources_of(modules: tuple[str, ...], closed_form: bool = False) -> str:
    """A hash of modules, of all they import here, and of the libraries and the kind of machine."""
    seen = files_of(modules, closed_form)
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    data = [*map(_digest, _data())] if closed_form else []
    return _hash([sorted(seen.values()), libraries, platform.machine(), platform.system(), *data])


def _data() -> list[Path]:
    """What the closed form reads of cards, models and kernels."""
    files = (path for room in DATA for path in (ROOT / room).rglob("*") if path.is_file())
    return sorted(path for path in files if path.suffix in (".json", ".npz"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _path(module: str, closed_form: bool = False) -> Path | None:
    """The file of a module of this repository; None for others, and for what only estimates."""
    estimates = _inside(module, CLOSED_FORM) or module.rpartition(".")[2].startswith("memory")
    if estimates and not closed_form and not _inside(module, READ):
        return None
    place = module.replace(".", "/")
    for room in (ROOT, ROOT / "tests"):
        for path in (room / f"{place}.py", room / place / "__init__.py"):
            if path.exists() and path.relative_to(ROOT).parts[0] in ROOMS:
                return path
    return None


def _inside(module: str, parts: Iterable[str]) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in parts)


@cache
def _read(path: Path) -> tuple[str, tuple[str, ...]]:
    """A file without its docstrings, since words change no figure; and what it imports."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [one for one in body if not _is_text(one)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree), tuple(_imported(tree))


def _is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module != "planner":  # its __init__ only passes on
                yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
