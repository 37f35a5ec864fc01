"""docs/adding.md is followed word for word, and gives what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recipes import ROOT, product, recipes, run

TITLES = ("A model", "A GPU", "A method", "A phase", "A field", "A framework")


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A copy of the product for each recipe, with nothing else added."""
    return {title: product(tmp_path_factory.mktemp("product"), title) for title in TITLES}


def test_there_is_a_recipe_for_each_thing_and_the_readme_leads_there() -> None:
    assert tuple(recipes()) == TITLES
    readme = (ROOT / "README.md").read_text("utf-8")
    for title in TITLES:
        anchor = title.lower().replace(" ", "-")
        assert f"(docs/adding.md#{anchor})" in readme, title


@pytest.mark.parametrize("title", TITLES)
def test_every_block_says_where_it_goes(title: str) -> None:
    recipe = recipes()[title]
    assert {kind for _, kind, _ in recipe.blocks} <= {"python", "json", "console"}
    assert recipe.files or recipe.ends or list(recipe.rows)
    assert not [file for file in recipe.files if (ROOT / file).exists()]
    assert all(shown for _, shown in recipe.commands) and list(recipe.commands)


@pytest.mark.parametrize("title", TITLES)
def test_its_commands_say_what_the_document_shows(title: str, copies: dict[str, Path]) -> None:
    for words, shown in recipes()[title].commands:
        said = run(copies[title], *words)
        for line in shown:
            assert line in said, words


COUNTED = """
from planner import catalog
from planner.formulas.parameters import active_parameter_count, parameter_count

model = catalog.model("made-up/Made-Up-42M")
found = parameter_count(model.architecture), active_parameter_count(model.architecture)
assert found == (model.params, model.params_active), found
"""


def test_the_models_counts_are_those_of_its_config(copies: dict[str, Path]) -> None:
    run(copies["A model"], "-c", COUNTED)


def test_the_files_to_add_keep_the_rules_of_the_house(copies: dict[str, Path]) -> None:
    for title in ("A method", "A phase", "A field", "A framework"):
        recipe = recipes()[title]
        files = [str(copies[title] / file) for file in (*recipe.files, *recipe.ends)]
        words = (str(Path(sys.executable).with_name("ruff")), "check", "--no-cache")
        done = subprocess.run(
            [*words, "--config", str(ROOT / "pyproject.toml"), *files],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
