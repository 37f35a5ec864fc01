"""Documentation that cannot rot: fields, pages and commands are where the docs say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from planner.__main__ import COMMANDS
from planner.cli import fields
from planner.formulas.formula import REGISTRY
from planner.plan import Plan
from recipes import recipes

ROOT = Path(__file__).parents[1]
NOTES = ROOT / "docs" / "notes"
DOCUMENTS = (
    *(ROOT / "README.md", ROOT / "CHANGELOG.md", NOTES / "README.md"),
    *sorted((ROOT / "docs").glob("*.md")),
)
"""What describes today; a decision or a day's notes describe their day."""


def named(document: Path) -> str:
    """Of a document, as a test's name has it."""
    return str(document.relative_to(ROOT))


PATH = re.compile(r"(?<![\w/.-])(?:planner|pages|tests|scripts|docs/decisions)/[\w./*<>-]*")
DOTTED = re.compile(r"(?<![\w/.-])planner(?:\.[a-z]\w*)+")
SHORT = re.compile(r"`((?:\w+/)*\w+\.py)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
PLACEHOLDER = re.compile(r"<[^>/]*>?")
ELSEWHERE = {
    *("_memory_viz.py", "flash_attn_interface.py", "rms_norm.py", "rope.py", "swiglu.py"),
    *("geglu.py", "chunk.py", "fused_recurrent.py", "causal_conv1d_interface.py", "ops.py"),
    *("functional.py", "_functions.py", "bnb.py", "moe.py", "core_algos.py", "rloo_trainer.py"),
    *("torch_functional.py", "on_verl.py", "trainer_base.py", "engine_workers.py"),
}
"""Files of other projects that documents name by a part of their path, and one to be made."""


CODE = re.compile(r"^```python\n.*?^```$", re.M | re.S)
"""Code of recipes, which is run by their own tests."""


def _named(found: re.Pattern[str], document: Path) -> list[str]:
    """What of a document's text a pattern finds."""
    return found.findall(CODE.sub("", document.read_text("utf-8")))


def _is_there(pattern: str) -> bool:
    decision = re.fullmatch(r"docs/decisions/\d{4}", pattern)
    return any(ROOT.glob(f"{pattern}-*" if decision else pattern))


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    added = {file for recipe in recipes().values() for file in recipe.files}
    for name in _named(PATH, document):
        assert name in added or _is_there(PLACEHOLDER.sub("*", name.rstrip("./"))), name
    for name in _named(SHORT, document):
        ours = any(any(ROOT.glob(f"{room}{name}")) for room in ("", "planner/**/", "tests/**/"))
        assert ours or name in added or Path(name).name in ELSEWHERE, name


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_module_that_a_document_names_exists(document: Path) -> None:
    for name in _named(DOTTED, document):
        path = name.replace(".", "/")
        owner, _, last = path.rpartition("/")
        if not (_is_there(path) or _is_there(f"{path}.py")):
            assert _is_there(f"{owner}.py"), name
            defined = rf"^(def |class |){last}\b"
            assert re.search(defined, (ROOT / f"{owner}.py").read_text("utf-8"), re.M), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    for target, anchor in _named(LINK, document):
        there = document.parent / target if target else document
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), f"{target}#{anchor}"


def test_every_field_has_a_description_and_a_row() -> None:
    assert all(info.description for info in Plan.model_fields.values())
    written = (ROOT / "docs" / "fields.md").read_text(encoding="utf-8")
    assert written.splitlines() == list(fields.lines())


INSIDE = {"HEADROOM_FORKS", "HEADROOM_SPARE", "HEADROOM_SUPERVISOR"}
"""Environment variables that our own processes set for each other."""


def test_the_readme_is_short_and_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 100
    for page in (ROOT / "pages").glob("*.py"):
        assert page.stem.capitalize() in readme, page.name


def test_every_command_and_setting_is_in_its_page() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2].replace("_", "-").strip("-")
        assert f"planner {name}" in page, name
    for file in (ROOT / "planner").rglob("*.py"):
        for name in re.findall(r'"(HEADROOM_[A-Z_]+)"', file.read_text("utf-8")):
            assert f"`{name}`" in page or name in INSIDE, f"{file.name}: {name}"


def test_files_the_readme_names_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in ("docs/screenshot-plan.png", "docs/accuracy.md", "scripts/app", "scripts/test"):
        assert path in readme and (ROOT / path).exists(), path


def test_the_root_holds_what_a_newcomer_needs() -> None:
    """Every other list of packages is in requirements/, where each line of `-r` and `-c` leads."""
    root = {path.name for path in ROOT.iterdir() if path.suffix in (".md", ".txt", "")}
    assert {name for name in root if not name.startswith(".") and "." in name} == {
        "README.md", "CHANGELOG.md", "requirements.txt",
    }  # fmt: skip
    licence = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in licence and len(licence.splitlines()) > 200
    lists = [ROOT / "requirements.txt", *(ROOT / "requirements").glob("*.txt")]
    assert {path.stem for path in lists} == {
        *("requirements", "constraints", "trial", "trl", "verl", "verl-nodeps", "ray"),
        *("test", "test-nodeps"),
    }
    for path in lists:
        for other in re.findall(r"^-[rc] (\S+)$", path.read_text("utf-8"), re.M):
            assert (path.parent / other).exists(), f"{path.name}: {other}"


def test_the_lab_book_lists_its_days() -> None:
    linked = set(re.findall(r"\]\(([\w.-]+\.md)\)", (NOTES / "README.md").read_text("utf-8")))
    assert linked == {path.name for path in NOTES.glob("*.md")} - {"README.md"}


def test_every_formula_says_why_and_from_where() -> None:
    assert len(REGISTRY) > 100
    for name, formula in REGISTRY.items():
        assert formula.why.endswith("."), name
        assert formula.source, name


def test_the_changelog_is_short_and_has_the_version_of_the_package() -> None:
    written = (ROOT / "CHANGELOG.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _, *releases = re.split(r"^## ", written, flags=re.M)
    unreleased, newest, *_ = [release.partition("\n")[0] for release in releases]
    for release in releases:
        lines = [line for line in release.splitlines()[1:] if line.strip()]
        assert len(lines) <= 40 and max(map(len, lines)) <= 120, release.partition("\n")[0]
    assert unreleased == "Unreleased"
    assert re.fullmatch(rf"{re.escape(project['version'])} - \d{{4}}-\d\d-\d\d", newest)
