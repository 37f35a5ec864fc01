"""What is read of a shell script against bash itself, whose commands are stand-ins that record."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.importer.edited import Change, edited
from planner.importer.given import Place, Word
from planner.importer.shell import read_shell
from shells import Bash, drawn, read

CONSTRUCTS = sorted((Path(__file__).parent / "constructs").glob("*.sh"))


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bash]:
    yield Bash(tmp_path_factory.mktemp("bash"))


@pytest.mark.parametrize("path", CONSTRUCTS, ids=lambda path: path.stem)
def test_words_are_those_that_bash_gives(path: Path, bash: Bash) -> None:
    said = bash.commands(path.read_text("utf-8"))
    assert said and read(path.read_text("utf-8")) == said


@pytest.mark.parametrize("seed", range(30))
def test_drawn_scripts_give_the_words_that_bash_gives(seed: int, bash: Bash) -> None:
    script = drawn(seed)
    assert read(script) == bash.commands(script)


def changed(script: str, place: Place, value: str) -> str:
    return edited({"script.sh": script}, [Change(place, value)])["script.sh"]


@pytest.mark.parametrize("seed", range(100, 110))
def test_a_changed_literal_is_what_bash_then_gives(seed: int, bash: Bash) -> None:
    """In scripts whose control flow rests on their values a change may lead elsewhere."""
    script, choose = drawn(seed), random.Random(seed)
    launches = read_shell(script, "script.sh", {})
    words = [
        (at, index, word)
        for at, launch in enumerate(launches)
        for index, word in enumerate(launch.arguments)
        if word.place
    ]
    met = 0
    for at, index, word in choose.sample(words, min(6, len(words))):
        assert word.place
        value = "3" if word.text.isdigit() else "zz9"
        text = changed(script, word.place, value)
        said = bash.commands(text)
        assert read(text) == said
        same = len(said) == len(launches) and said[at][1] == launches[at].program
        if same and len(said[at]) == len(launches[at].arguments) + 2:
            assert said[at][index + 2] == value
            met += 1
    assert met or not words


NASTY = "z '\"$(exit)`x`\\ }{*9"


@pytest.mark.parametrize(
    "script",
    [
        "python m a",
        "python m 'a b'",
        'python m "a $ b"',
        "X=a; python m \"$X\"",
        "X='a'; python m \"$X\"",
        'X="a"; python m "$X"',
        'python m "${X:-a b}"',
        "python m ${X:-a}",
        'A=(x "a b"); python m "${A[1]}"',
        'A=(a); python m "${A[@]}"',
        'f() { python m "$1"; }; f a',
        'eval "python m a"',
        "eval 'python m a'",
        "bash -c 'python m \"a\"'",
        'bash -c "python m \'a\'"',
        "X=a; export X; bash -c 'python m \"$X\"'",
    ],
)
def test_whatever_is_written_instead_arrives_as_it_is(script: str, bash: Bash) -> None:
    (launch,) = read_shell(script, "script.sh", {})
    word = launch.arguments[0]
    assert word.place
    assert bash.commands(changed(script, word.place, NASTY)) == [["python", "m", NASTY]]


def part(word: Word) -> Word:
    return word.part(word.text.index("=") + 1)


@pytest.mark.parametrize(
    ("script", "then"),
    [
        ("python m a.b=8", "python m a.b=16"),
        ("N=8; python m a.b=$N", "N=16; python m a.b=$N"),
        ('N="8"; python m "a.b=${N}"', 'N="16"; python m "a.b=${N}"'),
        ("python m a.b=${N:-8}", "python m a.b=${N:-16}"),
        ('A=("a.b=8" c); python m "${A[@]}"', 'A=("a.b=16" c); python m "${A[@]}"'),
        ("X='a.b=8'; python m $X", "X='a.b=16'; python m $X"),
        ("f() { python m a.b=$1; }; f 8", "f() { python m a.b=$1; }; f 16"),
        ('C="python m a.b=8"; $C', 'C="python m a.b=16"; $C'),
        ("N=9; N=8; python m a.b=$N; N=7", "N=9; N=16; python m a.b=$N; N=7"),
        ("for n in 8; do python m a.b=$n; done", "for n in 16; do python m a.b=$n; done"),
    ],
)
def test_the_place_of_what_follows_the_name_is_its_literal(script: str, then: str) -> None:
    (launch,) = read_shell(script, "script.sh", {})
    value = part(launch.arguments[0])
    assert value.text == "8" and value.place
    assert changed(script, value.place, "16") == then


@pytest.mark.parametrize("script", ["python m a.b=$((2*N))", "M=4; python m a.b=$M$N"])
def test_what_several_literals_make_has_no_place_but_can_be_written_anew(script: str) -> None:
    script = f"N=4; {script}"
    (launch,) = read_shell(script, "script.sh", {})
    value = part(launch.arguments[0])
    assert value.place is None and value.written
    assert read(changed(script, value.written, "16")) == [["python", "m", "a.b=16"]]
