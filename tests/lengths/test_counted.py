"""Files of lengths, whoever wrote them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.lengths import counted as module
from planner.lengths.counted import counted


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5\n7\n\n5\n", {5: 2, 7: 1}),
        ("\ufeff5\r\n7\r\n", {5: 1, 7: 1}),
        ("5,2\n7,1\n", {5: 2, 7: 1}),
        ("5\t2\n7;1\n9,0\n", {5: 2, 7: 1}),
        ("tokens,count\n5,2\n", {5: 2}),
        ("id,Response_Length\na,5\nb,5\n", {5: 2}),
        ('{"tokens": 5}\n{"response_length": 7.0, "text": "no"}\n', {5: 1, 7: 1}),
    ],
)
def test_what_people_have_is_read(text: str, found: dict[int, int]) -> None:
    assert counted(text.splitlines()) == Counter(found)


def test_texts_are_counted_by_the_tokenizer() -> None:
    lines = [
        json.dumps({"input": "x", "output": "four"}),
        json.dumps({"chosen": "one", "rejected": "threes"}),
        json.dumps({"messages": [{"role": "user", "content": "hi"},
                                 {"role": "assistant", "content": "seventy"}]}),
    ]
    assert counted(lines, characters) == Counter({4: 1, 3: 1, 6: 1, 7: 1})
    with pytest.raises(ValueError, match="--tokenizer"):
        counted(lines)


def test_many_texts_are_counted_a_few_at_a_time() -> None:
    calls: list[int] = []

    def tokenizer(texts: Sequence[str]) -> list[int]:
        calls.append(len(texts))
        return [1] * len(texts)

    assert counted(['{"text": "a"}'] * 1000, tokenizer) == Counter({1: 1000})
    assert len(calls) > 3 and max(calls) <= module.AT_ONCE + 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no response is in it"),
        ("5\n-3", "line 2: '-3' is no whole number"),
        ("5\n0", "line 2: '0' is no number of tokens"),
        ("5\n99999999", "line 2: '99999999' is no number"),
        ("5,5,5", "line 1: 3 numbers"),
        ("name,size\n1,2", "line 1: no column is called"),
        ("tokens,count\n5", "line 2: has 1 columns"),
        ("tokens,count\n5,9999999999999", "no count of responses"),
        ('{"tokens": true}', "'True' is no number of tokens"),
        ('{"tokens": NaN}', "NaN is not a number"),
        ('{"tokens": ' + "9" * 5000 + "}", "is no number of tokens"),
        ('{"prompt": "a"}', "none of response_tokens"),
        ('{"text": "\\ud800"}', "half a character"),
        ('{"a": ' + "[" * 100_000, "line 1: "),
        ("{oops}", "not JSON"),
        ('5\n"' + "1" * 200_000, "line 2: too long for numbers"),
        ("\u0665", "is no whole number"),
        ('"\0"', "line 1"),
    ],
)
def test_a_bad_line_is_named(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        counted(text.split("\n"), characters)
    assert str(caught.value).startswith("lengths: ")


@given(st.text(max_size=200))
def test_nothing_but_value_errors_come_of_any_file(text: str) -> None:
    try:
        assert sum(counted(text.split("\n"), characters).values()) > 0
    except ValueError as error:
        assert str(error).startswith("lengths: ")


def test_a_line_without_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_CHARACTERS", 100)
    with pytest.raises(ValueError, match="line 1: more than"):
        counted(['{"text": "' + "a" * 200 + '"}'], characters)
    monkeypatch.setattr(module, "MOST_LINES", 2)
    with pytest.raises(ValueError, match="more than 2 lines"):
        counted(["5"] * 3)
