"""The text of a value that a link carries beside its plan: parts joined by ``_``, fields by ``~``.

Anybody may have written it: each field is held to a pattern, and what is wrong is said as a part of
a sentence that begins with the value's name. Imports nothing of ours.
"""

from __future__ import annotations

import re

GPU = re.compile(r"[a-z0-9][a-z0-9\-]{0,63}")
"""A card's key in the catalog."""
VERSION = "1"


def parts(text: str, names: tuple[str, ...], most: int) -> tuple[list[str], list[str]]:
    """The first part's fields after its version, and the other parts.

    Args:
        text: the whole of it.
        names: what the first part's fields are called.
        most: characters that it may have.

    Raises:
        ValueError: when it is too long, or begins otherwise.
    """
    if len(text) > most:
        raise ValueError(f"has more than {most} characters")
    head, *rest = text.split("_")
    version, *fields = head.split("~")
    if version != VERSION or len(fields) != len(names):
        raise ValueError(f"does not begin with {'~'.join((VERSION, *names))}")
    return fields, rest


def require(pattern: re.Pattern[str], text: str, what: str) -> None:
    """Raise ``ValueError`` where a field is not as its pattern says."""
    if not pattern.fullmatch(text) or not text.isascii():
        raise ValueError(f"has {short(text)} as {what}")


def short(text: str) -> str:
    """The beginning of a text, so that it can stand in a sentence."""
    shown = "".join(character if character.isprintable() else "?" for character in text[:40])
    return repr(shown + ("…" if len(text) > 40 else ""))


def decimal(value: float, digits: int) -> str:
    """A number with at most so many decimal places."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
