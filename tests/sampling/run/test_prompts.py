"""A file of prompts from a stranger: read by place, bounded, bad lines named by their number."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from planner.sampling.ask.prompts import LINE_BYTES, key_of, scan, text_of

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


def test_prompts_are_read_by_place_and_blank_lines_are_none(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    first = '{"prompt": "one", "answer": 3}'
    lines = [first, "", '{"prompt": "zwei é"}', json.dumps({"prompt": CHAT})]
    file.write_text("\n".join(lines), "utf-8")
    found = scan(file)
    assert len(found) == 3 and found.chats
    assert found.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert list(found.read(1, 3)) == ["zwei é", (("system", "Be brief."), ("user", "Why?"))]
    assert text_of(next(iter(found.read(2, 3)))) == "system: Be brief.\nuser: Why?"


def test_a_prompts_key_is_the_sha256_of_its_text() -> None:
    assert key_of("a") == hashlib.sha256(b"a\n").hexdigest()[:16]
    chat = hashlib.sha256(b"user\na\n").hexdigest()[:16]
    assert key_of((("user", "a"),)) == chat != key_of("a")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"[1]", 'no object with a "prompt"'),
        (b'{"text": "a"}', 'no object with a "prompt"'),
        (b'{"prompt": ""}', "empty"),
        (b'{"prompt": 3}', "neither text nor a list"),
        (b'{"prompt": []}', "neither text nor a list"),
        (b'{"prompt": [{"role": "user"}]}', "not text"),
        (b'{"prompt": [{"role": "root", "content": "a"}]}', "without a role"),
        (b'{"prompt": "a", "prompt": "b"}', "twice"),
        (b'{"prompt": "a", "n": NaN}', "NaN"),
        (b'{"prompt": "\\ud800"}', "surrogate"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"prompt": ' + b"[" * 50_000, "nested too deep"),
        (b'{"prompt": "' + b"a" * LINE_BYTES + b'"}', "more than 1 MiB"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_bad_line_is_named_by_its_number(line: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes(b'{"prompt": "a"}\n{"prompt": "b"}\n' + line + b"\n")
    with pytest.raises(ValueError, match="^prompts: line 3: ") as error:
        scan(file)
    assert said in str(error.value) and len(str(error.value)) < 400


def test_a_number_of_a_million_digits_takes_no_time(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "a", "n": ' + "9" * 900_000 + '}\n{"prompt": "b"}\n')
    assert len(scan(file)) == 2


@pytest.mark.parametrize("text", ["", '{"prompt": "only one"}\n'])
def test_too_few_prompts_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(ValueError, match="2 are needed"):
        scan(tmp_path / "p.jsonl")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="^prompts: .* cannot be read"):
        scan(tmp_path / "none.jsonl")
