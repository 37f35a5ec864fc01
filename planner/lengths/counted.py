"""Lengths that somebody counted, from text: a number a line, CSV, or JSON lines.

Whoever wrote it is a stranger: lines are bounded and a bad one is named by its number. JSON lines
give token counts, or texts that a tokenizer has to count. Standard library only.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from planner.lengths.shape import MOST_COUNT, MOST_TOKENS

LINE_CHARACTERS = 8 * 2**20
"""Of JSON, which may hold a response of any length."""
ROW_CHARACTERS = 10_000
MOST_LINES = 20_000_000
NUMBERS = (
    *("response_tokens", "response_length", "completion_tokens", "completion_length"),
    *("tokens", "length"),
)
"""Keys and columns that hold a response's tokens, the first that is there."""
TEXTS = ("completion", "response", "output", "chosen", "rejected", "text")
"""Keys that hold a response's text, of which a line may have several."""
COUNTS = ("count", "responses", "frequency")
"""Columns that hold how often a length was seen."""

class Uncounted(ValueError):
    """Lines hold texts, and no tokenizer is there to count them."""


Tokenizer = Callable[[Sequence[str]], Sequence[int]]
"""Texts to their numbers of tokens."""
AT_ONCE = 256
_HALF = re.compile("[\ud800-\udfff]")


def counted(lines: Iterable[str], tokenizer: Tokenizer | None = None) -> Counter[int]:
    """How often each length is in a text.

    Raises:
        ValueError: naming ``lengths`` and the line that cannot be read, or what is missing.
    """
    found: Counter[int] = Counter()
    texts: list[str] = []
    columns: tuple[int, int | None] | None = None
    number = 0
    for number, line in enumerate(lines, 1):
        if number > MOST_LINES:
            raise ValueError(f"lengths: more than {MOST_LINES:,} lines; give a histogram.")
        try:
            if len(line) > LINE_CHARACTERS:
                raise ValueError(f"more than {LINE_CHARACTERS // 2**20} MiB")
            stripped = line.strip().removeprefix("\ufeff")
            if not stripped:
                continue
            if stripped.startswith("{"):
                texts += _of_json(stripped, found)
            elif len(stripped) > ROW_CHARACTERS:
                raise ValueError("too long for numbers")
            elif not found and columns is None and (stripped[0].isalpha() or stripped[0] == '"'):
                columns = _header(stripped)
            else:
                _of_row(stripped, columns, found)
        except (ValueError, csv.Error) as error:
            raise ValueError(f"lengths: line {number}: {error}.") from None
        if len(texts) >= AT_ONCE:
            _tokenized(texts, tokenizer, found)
            texts = []
    _tokenized(texts, tokenizer, found)
    if not found:
        raise ValueError("lengths: no response is in it; give token counts, one a line.")
    return found


def _tokenized(texts: Sequence[str], tokenizer: Tokenizer | None, found: Counter[int]) -> None:
    if not texts:
        return
    if tokenizer is None:
        raise Uncounted(
            "lengths: these are texts, which a tokenizer has to count; run "
            "`python -m planner lengths FILE --tokenizer FOLDER`, and paste what it writes."
        )
    found.update(max(count, 1) for count in tokenizer(texts))


def _of_json(line: str, found: Counter[int]) -> list[str]:
    """Counts a line's tokens, or returns its texts."""
    try:
        row: Any = json.loads(line, parse_constant=_no_number, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON (column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    for key in NUMBERS:
        if key in row:
            found[_tokens(row[key])] += 1
            return []
    texts = [row[key] for key in TEXTS if isinstance(row.get(key), str)]
    texts += _answers(row.get("messages"))
    if not texts:
        raise ValueError(f"none of {', '.join((*NUMBERS, *TEXTS, 'messages'))} is in it")
    if any(not text.isascii() and _HALF.search(text) for text in texts):
        raise ValueError("holds half a character (a lone surrogate)")
    return texts


def _answers(messages: Any) -> list[str]:
    """What a chat's assistant said last."""
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return []
    return [last["content"]] if isinstance(last.get("content"), str) else []


def _whole(digits: str) -> int:
    """A whole number; one of many digits takes seconds to read, and is no length."""
    return int(digits) if len(digits) < 16 else MOST_TOKENS + 1


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _header(line: str) -> tuple[int, int | None]:
    """Where the columns of lengths and of their counts are."""
    names = [name.strip().lower() for name in next(csv.reader([line]))]
    place = next((names.index(name) for name in NUMBERS if name in names), None)
    if place is None:
        raise ValueError(f"no column is called {' or '.join(NUMBERS)}")
    return place, next((names.index(name) for name in COUNTS if name in names), None)


def _of_row(line: str, columns: tuple[int, int | None] | None, found: Counter[int]) -> None:
    """A length, or a length and how often it was seen."""
    cells = next(csv.reader([line.replace(";", ",").replace("\t", ",")]))
    if columns is None:
        if len(cells) > 2:
            raise ValueError(f"{len(cells)} numbers; give a length, or a length and its count")
        columns = (0, 1 if len(cells) == 2 else None)
    at, times = columns
    if max(at, times or 0) >= len(cells):
        raise ValueError(f"has {len(cells)} columns")
    count = 1 if times is None else _number(cells[times])
    if not 0 <= count <= MOST_COUNT:
        raise ValueError(f"{count} is no count of responses")
    if count:
        found[_tokens(_number(cells[at]))] += count


def _number(cell: str) -> int:
    digits = cell.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{digits[:20]!r} is no whole number")
    return _whole(digits)


def _tokens(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_TOKENS:
        raise ValueError(f"{str(value)[:20]!r} is no number of tokens from 1 to {MOST_TOKENS:,}")
    return value
