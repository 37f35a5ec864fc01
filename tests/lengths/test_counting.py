"""Texts counted by a tokenizer's file, in a process that may be ended."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import pytest

from own_tokenizer import lines, words_file
from planner.cli.lengths import register, run
from planner.lengths import counting
from planner.lengths.counted import Uncounted, counted
from planner.lengths.counting import Counting
from planner.lengths.run.tokenizer_file import tokenizer_of_file


def ended(job: Counting) -> Counting:
    assert job.wait(60)
    return job


def test_texts_are_counted_in_another_process() -> None:
    job = ended(Counting(lines("a a a", "a", "a b a", ""), words_file()))
    # Each with the token that ends it; nothing is cut or filled.
    assert job.found == {4: 2, 2: 1, 1: 1} and not job.error
    assert (job.done, job.lines) == (4, 4)


def test_a_bad_line_is_named() -> None:
    job = ended(Counting(lines("a") + b'\n{"completion": 3}\n', words_file()))
    assert job.error.startswith("line 2: none of ") and not job.found
    job = ended(Counting(lines("a") + b"\n\xff\n", words_file()))
    assert job.error == "The texts are not UTF-8."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON (line 1, column 1)"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", "no model of a tokenizer is in it"),
        (b"{}", "no model of a tokenizer is in it"),
        (b'{"model": {"type": "pickle"}}', "no model of a tokenizer is in it"),
        (b"[" * 100_000, "nested too deep"),
        (words_file(model={"type": "BPE", "vocab": 3}), "cannot be read"),
        (words_file(added_tokens=[{"id": -1}]), "cannot be read"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused_with_the_fix(content: bytes, said: str) -> None:
    job = ended(Counting(lines("a"), content))
    assert said in job.error and "tokenizer.json that lies beside" in job.error


def test_a_pattern_made_to_take_for_ever_ends_its_process_and_nothing_else() -> None:
    split = {"type": "Split", "pattern": {"Regex": "^(a|a)*$"}, "behavior": "Isolated"}
    hostile = words_file(pre_tokenizer={**split, "invert": False})
    job = ended(Counting(lines("a" * 60 + "b"), hostile))
    assert job.error.startswith("The tokenizer's process ended") and not job.found


def test_a_count_that_runs_can_be_given_up() -> None:
    job = Counting(lines(*("a " * 300 for _ in range(20_000))), words_file())
    while not job.done:
        assert job.running
        time.sleep(0.01)
    job.cancel()
    assert ended(job).given_up and not job.error and not job.found
    # The next one does not wait for what was given up.
    assert ended(Counting(lines("a"), words_file())).found == {2: 1}


def test_a_process_that_ends_without_an_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "WORKER", "planner.lengths.no_such_module")
    job = ended(Counting(lines("a"), words_file()))
    assert job.error.startswith("The tokenizer's process ended")


def test_progress_is_told_by_lines() -> None:
    many = lines(*("a " * 300 for _ in range(10_000)))
    job = Counting(many, words_file())
    seen = set()
    while job.running:
        seen.add(job.done)
        time.sleep(0.01)
    assert job.found == {301: 10_000} and len(seen) > 2 and max(seen) <= job.lines == 10_000


def test_one_is_counted_at_a_time() -> None:
    many = lines(*("a " * 300 for _ in range(10_000)))
    first, second = Counting(many, words_file()), Counting(lines("a"), words_file())
    assert first.running and second.done == 0
    second.cancel()
    assert ended(second).given_up and first.running
    assert ended(first).found == {301: 10_000}


def test_texts_without_a_tokenizer_say_what_is_missing() -> None:
    with pytest.raises(Uncounted, match="a tokenizer has to count"):
        counted(['{"completion": "a"}'])


def test_the_command_takes_a_tokenizers_file(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, tokenizer = tmp_path / "texts.jsonl", tmp_path / "tokenizer.json"
    texts.write_bytes(lines("a a", "a"))
    tokenizer.write_bytes(words_file())
    parser = argparse.ArgumentParser()
    register(parser)
    assert run(parser.parse_args([str(texts), "--tokenizer", str(tokenizer)])) == 0
    assert capsys.readouterr().out.strip() == "1~hist_2~1_3~1"


def test_counts_are_what_the_library_says() -> None:
    count: Callable[..., Any] = tokenizer_of_file(words_file())
    assert list(count(["a b", "a " * 100])) == [3, 101]
