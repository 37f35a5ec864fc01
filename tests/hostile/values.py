"""Texts that nobody means well with, and what is wrong with what becomes of one."""

from __future__ import annotations

import random

PARTS = (
    *("$(touch pwned)", "`touch pwned`", "; touch pwned", "&& touch pwned #", "| touch pwned"),
    *("> pwned", "\ntouch pwned\n", "'", '"', "\\", "$", "${HOME}", "$((1+1))", "${x:-y}", "!!"),
    *("\n", "\r", "\t", " ", "  ", "#", " #", "*", "?", "~", "{a,b}", "[", "]", "(", ")", "<<EOF"),
    *("'; touch pwned; '", '"; touch pwned; "', "');__import__('os').system('touch pwned')#"),
    *('"""', "%s", "{0}", "{{", "&a ", "*a", "!!python/object/apply:os.system ['touch pwned']"),
    *(": ", "- ", "---", "yes", "null", "1e5", "0x10", "-", "--x", "--x=1", "=", ",", "@", "@file"),
    *("é", "\u202e", "\u2028", "\x85", "\U0001f600", "\x02", "\x7f", "..", "/", "//", "a", "b c"),
)


def drawn(dice: random.Random) -> str:
    """A text that nobody means well with."""
    text = "".join(dice.choices(PARTS, k=dice.randint(1, 6)))
    # Readers take the line ends of another system for their own.
    return text.replace("\r\n", "\r")


class Wrong(Exception):
    """What arrived is not what was meant."""


def same(what: str, found: object, wanted: object) -> None:
    """Raise unless both are alike."""
    if found != wanted:
        raise Wrong(f"{what}: {found!r} for {wanted!r}")
