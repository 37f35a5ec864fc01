"""Words: at most forty of our own, and no sentence that a person reads has a refused one.

``docs/words.md`` has both lists. ``.venv/bin/python tests/test_words.py`` names every sentence of
the product that still has a refused phrase, with file and line.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
WORDS = ROOT / "docs" / "words.md"
OWN, REFUSED = WORDS.read_text("utf-8").split("## Write this instead")

PRODUCT = ("app.py", "pages", "planner")
"""Where strings of Python are sentences of pages, verdicts, advice, help, errors and reports."""
FOLLOWING = (*("accuracy.md", "cases.md", "fields.md", "field-effects.md", "search.md"),)
"""Documents that say what the product says: written by it, or by hand about its sentences."""
LEFT = ("words.md", "models.md", "words-read.md")
"""One lists what is refused; two quote what was recorded."""


class Sentence(NamedTuple):
    """What a person reads, and where it is written."""

    file: Path
    line: int
    text: str


def refused() -> dict[str, re.Pattern[str]]:
    """Each refused phrase, whatever its case and wherever its lines break."""
    phrases = re.findall(r"^\| `([^`]+)` \| .+ \|$", REFUSED, re.M)
    return {
        phrase: re.compile(r"(?<!\w)" + r"\s+".join(map(_word, phrase.split())) + r"(?!\w)", re.I)
        for phrase in phrases
    }


def _word(word: str) -> str:
    """As a pattern; an apostrophe is one, straight or curled."""
    return re.escape(word).replace("'", "['’]")


def documents(*, following: bool) -> Iterator[Path]:
    """README, changelog, lab book's index and pages; decisions and days describe their day."""
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "docs" / "notes" / "README.md")
    for path in sorted((ROOT / "docs").glob("*.md")):
        if path.name not in LEFT and (path.name in FOLLOWING) is following:
            yield path


def of_document(path: Path) -> Iterator[Sentence]:
    """Each paragraph, list item or row of a table."""
    line = 1
    for part in re.split(r"(\n\s*\n|\n(?=[-|#]))", path.read_text("utf-8")):
        if part.strip():
            yield Sentence(path, line, part)
        line += part.count("\n")


def of_code(path: Path) -> Iterator[Sentence]:
    """Strings of a module, f-strings whole; docstrings are for whoever reads the code."""
    tree = ast.parse(path.read_text("utf-8"))
    parts = {id(part) for node in ast.walk(tree) for part in _parts(node)}
    for node in ast.walk(tree):
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            said = (one.value if isinstance(one, ast.Constant) else "…" for one in node.values)
            yield Sentence(path, node.lineno, "".join(map(str, said)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Sentence(path, node.lineno, node.value)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Strings inside an f-string, and a string that stands alone as a statement."""
    if isinstance(node, ast.JoinedStr):
        yield from (one for one in node.values if isinstance(one, ast.Constant))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value


def of_presets() -> Iterator[Sentence]:
    """Labels of presets."""
    path = ROOT / "planner" / "plan" / "presets.json"

    def texts(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                yield from texts(one)

    for text in texts(json.loads(path.read_text("utf-8"))):
        yield Sentence(path, 1, text)


def of_product() -> Iterator[Sentence]:
    """Every sentence of the product, and documents that have its sentences."""
    for place in PRODUCT:
        path = ROOT / place
        assert path.exists(), place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield from of_code(file)
    yield from of_presets()
    for document in documents(following=True):
        yield from of_document(document)


def offences(sentences: Iterator[Sentence]) -> Iterator[str]:
    """Each refused phrase in a sentence, with where it stands."""
    phrases = refused()
    for sentence in sentences:
        for phrase, pattern in phrases.items():
            if pattern.search(sentence.text):
                where = f"{sentence.file.relative_to(ROOT)}:{sentence.line}"
                yield f"{where}: “{phrase}” in {' '.join(sentence.text.split())[:160]}"


def test_at_most_forty_words_of_our_own_each_with_one_meaning() -> None:
    rows = re.findall(r"^\| ([a-z][a-z -]*) \| (.+) \|$", OWN, re.M)
    words = [word for word, _ in rows]
    assert 20 < len(words) <= 40
    assert len(set(words)) == len(words)
    assert len({meaning for _, meaning in rows}) == len(rows)
    assert all(not pattern.search(OWN) for pattern in refused().values())


def test_what_is_refused_has_something_better() -> None:
    rows = [row for row in REFUSED.splitlines() if row.startswith("| `")]
    assert len(rows) == len(refused()) > 40


@pytest.mark.parametrize("document", [*documents(following=False)], ids=lambda path: path.name)
def test_documents_say_it_in_plain_words(document: Path) -> None:
    assert not list(offences(of_document(document)))


def test_the_product_says_it_in_plain_words() -> None:
    found = list(offences(of_product()))
    assert not found, "\n".join(found)


def test_every_kind_of_sentence_is_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Every number, opened."""\nX = 1\n"""What decides it."""\n'
        'LABEL = "Use the " "room"\n'
        'def said(n):\n    """Other ways."""\n    return f"{n} whole " f"sequences of {n}"\n'
    )
    found = [one.text for one in of_code(module)]
    assert found == ["Use the room", "… whole sequences of …"]
    phrases = refused()
    assert phrases["use the room"].search(found[0])
    assert phrases["whole sequences"].search(found[1])
    assert phrases["people try these"].search("People\n  try these; here")
    assert not phrases["rung"].search("wrung out")


def test_the_product_is_read() -> None:
    texts = {sentence.text for sentence in of_product()}
    assert "whether a plan fits, how fast it is, what it costs, and why" in texts
    assert len(texts) > 5_000


if __name__ == "__main__":
    found = list(offences(of_product()))
    print(*found, sep="\n")
    print(f"{len(found)} refused phrases in the product")
