"""Documentation that cannot rot: fields, pages and commands are where the docs say."""

from __future__ import annotations

from pathlib import Path

from planner.__main__ import COMMANDS
from planner.cli import fields
from planner.formulas.formula import REGISTRY
from planner.plan import Plan

ROOT = Path(__file__).parents[1]


def test_every_field_has_a_description_and_a_row() -> None:
    assert all(info.description for info in Plan.model_fields.values())
    written = (ROOT / "docs" / "fields.md").read_text(encoding="utf-8")
    assert written.splitlines() == list(fields.lines())


def test_the_readme_names_every_page_and_command_it_can() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "pages").glob("*.py"):
        assert page.stem.capitalize() in readme, page.name
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2].replace("_", "-")
        assert f"planner {name}" in readme, name


def test_files_the_readme_names_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in ("docs/screenshot-plan.png", "docs/accuracy.md", "scripts/app", "scripts/test"):
        assert path in readme and (ROOT / path).exists(), path


def test_every_formula_says_why_and_from_where() -> None:
    assert len(REGISTRY) > 100
    for name, formula in REGISTRY.items():
        assert formula.why.endswith("."), name
        assert formula.source, name
