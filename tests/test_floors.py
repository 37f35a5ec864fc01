"""The floors of the house: a part knows parts of lower floors alone, and none is in a circle."""

from collections import defaultdict
from pathlib import Path

import pytest

import arrows

FLOORS: tuple[tuple[str, ...], ...] = (
    ("registry",),
    ("background", "disk_cache", "imports", "linktext", "numeric", "problem", "units"),
    ("forks", "rule", "speeds"),
    ("jobs",),
    ("lengths",),
    ("catalog", "values"),
    ("plan", "term"),
    ("footprint", "formulas"),
    ("answer", "cost", "kernels", "setup"),
    ("phases", "steps", "throughput"),
    ("cautions", "comparison", "timing", "totals"),
    ("estimate", "wording"),
    ("charts", "dryrun", "sweeps"),
    ("advice", "late", "trial"),
    ("__init__", "benchmark", "importer", "launch", "sampling"),
    ("examples", "frameworks", "methods", "search"),
    ("report",),
    ("ui",),
    ("cli",),
    ("__main__",),
)
"""Folders of the planner and modules beside them, lowest floor first (docs/architecture.md)."""

HEIGHT = {part: height for height, floor in enumerate(FLOORS) for part in floor}

TYPED = ({f"planner.sampling.{name}" for name in ("derived", "model", "plan", "rules")},)
"""Modules of one folder in a circle: a sampling plan is held to rules over its own fields; what
closes the circle is imported for its type alone."""

REGISTRY = "registry"
"""The one that finds modules by their names, so that what it names is no arrow of its own."""

FOUND = ("methods", "frameworks")
"""Folders that only the registry finds; a page lists the formulas in all of them."""

FACES = {"__init__", "fields", "rules", "words"}
"""Modules of a method's or framework's folder that say what it is: a plan is made of them."""


def known() -> dict[str, frozenset[str]]:
    """By part, the parts that it knows."""
    found: dict[str, set[str]] = defaultdict(set)
    for part, other in arrows.arrows():
        if part != REGISTRY:
            found[part].add(other)
    return {part: frozenset(others) for part, others in found.items()}


def test_every_part_has_a_floor() -> None:
    assert {arrows.part(module) for module in arrows.modules()} == HEIGHT.keys()


def test_no_part_stands_in_a_circle() -> None:
    assert arrows.circles(known()) == []


def test_modules_of_a_folder_stand_in_no_circle_either() -> None:
    imports = {m: arrows.imported_in(path) - {m} for m, path in arrows.modules().items()}
    assert arrows.circles(imports) == sorted(map(frozenset, TYPED), key=sorted)


def test_no_part_knows_one_of_its_own_floor_or_above() -> None:
    up = {
        f"{part} → {other}": sorted(where)
        for (part, other), where in arrows.arrows().items()
        if part != REGISTRY and HEIGHT[other] >= HEIGHT[part]
    }
    assert up == {}


def test_methods_and_frameworks_are_found_and_never_imported() -> None:
    who = {
        module
        for (part, other), where in arrows.arrows().items()
        if other in FOUND and part != REGISTRY
        for module in where
    }
    assert who == {"planner.ui.formulas"}


def test_no_framework_knows_another() -> None:
    own = {m: path for m, path in arrows.modules().items() if m.startswith("planner.frameworks.")}
    for module, path in own.items():
        for other in arrows.imported_in(path) & own.keys():
            assert other.split(".")[2] == module.split(".")[2], f"{module} imports {other}"


@pytest.mark.parametrize("kind", FOUND)
def test_what_a_plan_is_made_of_knows_nothing_above_it(kind: str) -> None:
    own = {m: path for m, path in arrows.modules().items() if m.startswith(f"planner.{kind}.")}
    faces = {module: path for module, path in own.items() if path.stem in FACES}
    assert len(faces) > 3
    for module, path in faces.items():
        if module.count(".") > 2 and path.stem == "__init__":
            continue  # of a folder in the folder
        for other in arrows.named_in(path):
            part = arrows.part(other)
            assert part == kind or HEIGHT[part] <= HEIGHT["plan"], f"{module} imports {other}"


def test_only_the_registry_imports_ours_by_a_name() -> None:
    """Others that import by name import packages that are not ours, or what they are handed."""
    handed = {"planner.imports", "planner.forks.server", "planner.ui.formulas"}
    for module, path in arrows.modules().items():
        if module not in {f"planner.{REGISTRY}", *handed}:
            for text in arrows.imported_by_name(path):
                assert "planner" not in text and "__name__" not in text, f"{module}: {text}"


@pytest.mark.parametrize(
    "text",
    [
        "import planner.estimate",
        "from planner import estimate",
        "from planner.estimate import estimate",
        "def late():\n    from planner.estimate import estimate",
        "if TYPE_CHECKING:\n    from planner.estimate import estimate",
        "import_module('planner.estimate')",
        "import_module(f'planner.estimate.{name}')",
    ],
)
def test_an_arrow_is_seen_however_it_is_drawn(tmp_path: Path, text: str) -> None:
    path = tmp_path / "some.py"
    path.write_text(text)
    assert "estimate" in {arrows.part(other) for other in arrows.named_in(path)}


def test_a_circle_is_seen() -> None:
    drawn = {"a": frozenset("bd"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset()}
    assert arrows.circles(drawn) == [frozenset("abc")]
