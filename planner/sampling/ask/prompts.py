"""A file of prompts: JSON lines, each with a ``prompt``, read by place and never whole in memory.

Whoever wrote it is a stranger: sizes are bounded, and a line that cannot be read is named by its
number. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.jobs.strict import refuse_constant, unique

LARGEST_BYTES = 64 * 2**30
LINE_BYTES = 2**20
"""Of one line; a prompt of 100,000 tokens is about 400 kB."""
MOST_PROMPTS = 100_000_000
MOST_MESSAGES = 200
NAMED_LINES = 5
"""Bad lines that a refusal names before it stops reading."""
ROLES = ("system", "developer", "user", "assistant", "tool")
KEY_CHARACTERS = 16

Prompt = str | tuple[tuple[str, str], ...]
"""Text as it stands, or the role and content of each message of a chat."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """A validated file: where each prompt's line begins, and what the file was."""

    path: Path
    offsets: array[int]
    """Of the lines with a prompt, in bytes; 8 bytes a prompt."""
    sha256: str
    chats: bool
    """Whether any of them is a chat, which needs a tokenizer with a template."""

    def __len__(self) -> int:
        return len(self.offsets)

    def read(self, start: int, stop: int) -> Iterator[Prompt]:
        """Prompts from one place to another, in the file's order."""
        with open(self.path, "rb") as file:
            for offset in self.offsets[start:stop]:
                file.seek(offset)
                yield parse(file.readline(LINE_BYTES + 1))


def scan(path: Path, *, fewest: int = 2) -> Prompts:
    """Reads a file once: every line is checked, none is kept.

    Raises:
        ValueError: naming ``prompts`` and the lines that cannot be read.
    """
    offsets = array("q")
    digest = hashlib.sha256()
    bad: list[str] = []
    chats = False
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError(f"prompts: more than {LARGEST_BYTES // 2**30} GiB; split the file.")
        with open(path, "rb") as file:
            offset = 0
            for number, line in enumerate(_lines(file), 1):
                digest.update(line)
                try:
                    if line.strip():
                        chats |= not isinstance(parse(line), str)
                        offsets.append(offset)
                except ValueError as error:
                    bad.append(f"line {number}: {error}")
                if len(bad) >= NAMED_LINES or len(line) > LINE_BYTES:
                    break
                if len(offsets) > MOST_PROMPTS:
                    raise ValueError(f"prompts: more than {MOST_PROMPTS:,}; split the file.")
                offset += len(line)
    except OSError as error:
        raise ValueError(f"prompts: {path} cannot be read: {error.strerror or error}.") from None
    if bad:
        raise ValueError(f"prompts: {'; '.join(bad)}. Correct or remove these lines.")
    if len(offsets) < fewest:
        raise ValueError(
            f"prompts: {len(offsets)} in the file, and {fewest} are needed; give JSON lines, each "
            'with a "prompt".'
        )
    return Prompts(path, offsets, digest.hexdigest(), chats)


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES + 1):
        yield line


def parse(line: bytes) -> Prompt:
    """The prompt of one line.

    Raises:
        ValueError: what is wrong with it, without the line's number.
    """
    if len(line) > LINE_BYTES:
        raise ValueError(f"more than {LINE_BYTES // 2**20} MiB")
    try:
        # Nothing of ours reads numbers, and long ones take seconds to become one.
        found = json.loads(
            line.decode("utf-8-sig"),
            object_pairs_hook=unique,
            parse_constant=refuse_constant,
            parse_int=_unread,
        )
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON (column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict) or "prompt" not in found:
        raise ValueError('no object with a "prompt"')
    prompt = found["prompt"]
    if isinstance(prompt, str):
        return _text(prompt)
    if isinstance(prompt, list) and 0 < len(prompt) <= MOST_MESSAGES:
        return tuple(map(_message, prompt))
    raise ValueError(f'"prompt" is neither text nor a list of 1 to {MOST_MESSAGES} messages')


def _unread(digits: str) -> None:
    return None


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError('"prompt" is empty')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError('"prompt" holds half a character (a lone surrogate)') from None
    return text


def _message(message: Any) -> tuple[str, str]:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise ValueError(f"a message without a role ({', '.join(ROLES)})")
    if not isinstance(message.get("content"), str):
        raise ValueError('a message whose "content" is not text')
    return message["role"], _text(message["content"])


def text_of(prompt: Prompt) -> str:
    """A prompt as a person reads it."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{role}: {content}" for role, content in prompt)


def key_of(prompt: Prompt) -> str:
    """What a prompt is known by, whoever reads it: 16 digits of the SHA-256 of its text.

    Of a chat the text is every role and content, ended by a line feed each. The same function
    stands in the samplers for trainers, which check by it that weights and prompts belong
    together.
    """
    parts = [prompt] if isinstance(prompt, str) else [part for pair in prompt for part in pair]
    joined = "".join(f"{part}\n" for part in parts)
    return hashlib.sha256(joined.encode("utf-8")).hexdigest()[:KEY_CHARACTERS]
