"""Bash text that is safe to run: quoting, checked variables, comments."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping

import yaml

SAFE_PATH = "A-Za-z0-9_./:@%+=-"
"""Characters a path or dataset name may have where a framework parses it again (hydra does)."""


def comment(*paragraphs: str) -> str:
    """Paragraphs as wrapped comment lines; no text can end the comment."""
    lines: list[str] = []
    for paragraph in paragraphs:
        plain = " ".join(paragraph.split())
        # A link must stay whole to be clicked, so nothing inside a word is broken.
        lines += textwrap.wrap(plain, 96, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def chosen(*rows: tuple[object, str]) -> tuple[str, ...]:
    """The texts of the rows that apply."""
    return tuple(text for applies, text in rows if applies)


def given(values: Mapping[str, object]) -> dict[str, object]:
    """The settings that have a value."""
    return {name: value for name, value in values.items() if value is not None}


def header(paragraphs: Iterable[str]) -> str:
    """Start of every script: the comments, then stop at the first error."""
    return f"#!/usr/bin/env bash\n{comment(*paragraphs)}\nset -euo pipefail\n"


def required(name: str, meaning: str) -> str:
    """A line that stops the script unless the variable is set.

    Raises:
        ValueError: the meaning has characters bash would interpret, such as an apostrophe.
    """
    if not re.fullmatch(r"[A-Za-z0-9 ,.]+", meaning):
        raise ValueError(f"meaning {meaning!r} must be plain words.")
    return f': "${{{name}:?set {name} to {meaning}}}"'


def plain_characters(*names: str) -> str:
    """Lines that stop the script when a variable holds characters hydra would interpret."""
    values = " ".join(f'"${name}"' for name in names)
    lines = [f"for value in {values}; do"]
    lines += [
        '  case "$value" in',
        f"    *[!{SAFE_PATH}]*)",
        '      printf "%s\\n" "Only letters, digits and ./_:@%+=- can be passed on: $value" >&2',
        "      exit 2 ;;",
        "  esac",
        "done",
    ]
    return "\n".join(lines)


class Expanded(str):
    """A word that bash is to expand; made by :func:`expand` only."""


def expand(prefix: str, variable: str, suffix: str = "") -> Expanded:
    """``prefix`` + the variable's value + ``suffix`` as one word, whatever the value holds."""
    before, after = (re.sub(r'([\\"$`])', r"\\\1", text) for text in (prefix, suffix))
    return Expanded(f'"{before}${{{variable}}}{after}"')


def command(words: Iterable[str]) -> str:
    """A command with a line for each option; variables come as :func:`expand` words."""
    text = ""
    previous = ""
    for word in words:
        quoted = word if isinstance(word, Expanded) else shlex.quote(word)
        # An option and its value read better on one line.
        follows = previous.startswith("-") and not word.startswith("-")
        text += (" " if follows else " \\\n  ") + quoted if text else quoted
        previous = word
    return text


def yaml_text(values: dict[str, object], *paragraphs: str) -> str:
    """Commented YAML that reads back as the same values.

    Raises:
        ValueError: a value would be read back as something else.
    """
    text: str = yaml.safe_dump(values, sort_keys=False, default_flow_style=False, width=1000)
    if yaml.safe_load(text) != values:
        raise ValueError("A value cannot be written as YAML.")
    return (comment(*paragraphs) + "\n" if paragraphs else "") + text
