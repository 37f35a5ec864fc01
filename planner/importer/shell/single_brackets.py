"""``[ … ]`` and ``test …``: conditions by their words, expanded before."""

from __future__ import annotations

from collections.abc import Collection

from planner.importer.given import Word
from planner.importer.shell.conditions import (
    BETWEEN_FILES,
    FILES,
    NUMBERS,
    TEXTS,
    Condition,
    Status,
    unknown,
)
from planner.importer.shell.evaluation import UnknownError
from planner.importer.shell.expansion import Expander


class _Single(Condition):
    """``test`` by the number of its arguments, then by precedence, as bash does.

    Every operand is evaluated, whether it decides or not.
    """

    either_sign, both_sign = "-o", "-a"

    def all(self, words: list[Word]) -> bool:
        texts = [word.text for word in words]
        if len(words) == 3 and self.operator(texts[1]):
            return self.binary(words[0], texts[1], words[2])
        if len(words) == 3 and texts[1] in ("-a", "-o"):
            left, right = bool(self.known(words[0])), bool(self.known(words[2]))
            return left and right if texts[1] == "-a" else left or right
        if not words:
            return False
        if len(words) == 1:
            return bool(self.known(words[0]))
        if texts[0] == "!" and len(words) <= 4:
            return not self.all(words[1:])
        if len(words) == 2:
            return self.asks(texts[0]) and self.unary(texts[0], words[1])
        self.words, self.at = words, 0
        value = bool(self.either())
        return value if self.at == len(words) else False

    def operator(self, text: str) -> bool:
        return text in NUMBERS or text in TEXTS or text in BETWEEN_FILES

    def asks(self, text: str) -> bool:
        return text in ("-z", "-n", "-v") or text in FILES

    def text(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.words[at].text if at < len(self.words) else ""

    def sign(self, sign: str, /) -> bool:
        found = self.text() == sign
        self.at += found
        return found

    def one(self) -> bool:
        if self.at >= len(self.words):
            return False
        if self.sign("!"):
            return not self.nested(self.one, self.start)
        if self.sign("("):
            value = self.nested(self.either, self.start)
            self.at += 1
            return value
        if self.operator(self.text(1)) and self.at + 2 < len(self.words):
            left, operator, right = self.words[self.at : self.at + 3]
            self.at += 3
            return self.binary(left, operator.text, right)
        if self.asks(self.text()) and self.at + 1 < len(self.words):
            self.at += 2
            return self.unary(self.words[self.at - 2].text, self.words[self.at - 1])
        self.at += 1
        return bool(self.known(self.words[self.at - 1]))


def single(words: list[Word], expander: Expander, files: Collection[str], at: int) -> Status:
    """``[ … ]`` or ``test …``; what the text does not say makes it false."""
    test = _Single(expander, files, at)
    try:
        return Status(test.all(words), tuple(dict.fromkeys(test.opens)))
    except UnknownError:
        shown = " ".join(word.text for word in words)
        return unknown(f"[ {shown} ]", expander, at)
