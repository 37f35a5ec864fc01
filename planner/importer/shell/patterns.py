"""bash's patterns (``*``, ``?``, ``[a-z]``), matched in time that only grows with their lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r" \t\n\r\f\v",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
}
BRACKET = re.compile(r"[!^]?\]?(?:\[:\w+:\]|[^]])*\]")
EXTENDED = re.compile(r"[?*+@!]\(")


@dataclass(frozen=True, slots=True)
class Token:
    """One character that matches, or any run of them."""

    literal: str = ""
    one_of: re.Pattern[str] | None = None
    star: bool = False

    def takes(self, one: str) -> bool:
        """Whether it matches this character."""
        return bool(self.one_of.match(one)) if self.one_of else one == self.literal


ANY = Token(one_of=re.compile("(?s:.)"))
STAR = Token(star=True)


def tokens(runs: Iterable[tuple[str, bool]]) -> tuple[Token, ...] | None:
    """A pattern of runs of characters, each with whether it is quoted; None: an extended one."""
    characters = [(one, quoted) for text, quoted in runs for one in text]
    plain = "".join("\0" if quoted else one for one, quoted in characters)
    if EXTENDED.search(plain):
        return None
    found, at = list[Token](), 0
    while at < len(characters):
        one, quoted = characters[at]
        at += 1
        if quoted or one not in "*?[\\":
            found.append(Token(one))
        elif one == "*":
            if not found or not found[-1].star:
                found.append(STAR)
        elif one == "?":
            found.append(ANY)
        elif one == "\\" and at < len(characters):
            found.append(Token(characters[at][0]))
            at += 1
        else:
            close = BRACKET.match(plain, at) if one == "[" else None
            if not close:
                found.append(Token(one))
                continue
            inside = "".join(each for each, _ in characters[at : close.end() - 1])
            found.append(Token(one_of=_bracket(inside)))
            at = close.end()
    return tuple(found)


def _bracket(inside: str) -> re.Pattern[str]:
    negated = inside[:1] in ("!", "^")
    inside = inside[1:] if negated else inside
    body = re.sub(
        r"\[:(\w+):\]|([\\\]\[^&~|])",
        lambda found: CLASSES.get(found[1], "") if found[1] else "\\" + found[2],
        inside,
    )
    try:
        return re.compile(f"[{'^' if negated else ''}{body}]", re.S)
    except re.error:
        return re.compile(r"(?!)")


def ends(pattern: tuple[Token, ...], text: str, start: int = 0) -> list[int]:
    """Every position up to which the pattern matches from ``start``, in their order."""
    states = _closed({0}, pattern)
    found = [start] if len(pattern) in states else []
    for at in range(start, len(text)):
        following = set()
        for state in states:
            if state < len(pattern):
                if pattern[state].star:
                    following.add(state)
                elif pattern[state].takes(text[at]):
                    following.add(state + 1)
        states = _closed(following, pattern)
        if not states:
            break
        if len(pattern) in states:
            found.append(at + 1)
    return found


def _closed(states: set[int], pattern: tuple[Token, ...]) -> set[int]:
    """States reached without a character: a star may match nothing."""
    found = set(states)
    for state in states:
        while state < len(pattern) and pattern[state].star:
            state += 1
            found.add(state)
    return found


def matches(pattern: tuple[Token, ...], text: str) -> bool:
    """Whether it matches all of the text."""
    return ends(pattern, text)[-1:] == [len(text)]
