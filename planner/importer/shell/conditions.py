"""``[ … ]`` and ``[[ … ]]`` on what the text says."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from planner.importer.given import Open, Word
from planner.importer.shell import patterns, regular
from planner.importer.shell.arithmetic import wrapped
from planner.importer.shell.expansion import Expander, UnknownError
from planner.importer.shell.source import MOST_DEPTH
from planner.importer.shell.variables import Variable
from planner.importer.shell.words import BARE, META, Raw

NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
TEXTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}
FILES = frozenset(f"-{one}" for one in "abcdefghkprstuwxLSGON")
"""Asked of a file, or of a descriptor."""
BETWEEN_FILES = frozenset(("-nt", "-ot", "-ef"))
INTEGER = re.compile(r"\s*([-+]?)0*(\d{1,19})\s*")
COMPARES = re.compile(r"=~|==?|!=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef)\b")
BEHIND = re.compile(COMPARES.pattern + r"|&&|\|\||\)")
"""What follows a word that is no operator of one file or text."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a command ended, and what that rests on."""

    success: bool = True
    opens: tuple[Open, ...] = ()
    ran: bool = False
    """Of a program, which is taken to succeed."""
    assumed: bool = False
    """Nobody knows it from the text, not even where nothing comes from outside."""


def unknown(text: str, expander: Expander, at: int, success: bool = False) -> Status:
    """What nobody can know from the text, and what it is taken for."""
    shown = " ".join(text.split())[:120]
    place = expander.source.place(at, at)
    said = Open(shown, "true" if success else "false", place)
    return Status(success, (said,), assumed=True)


class _Test:
    """One condition: its operands' opens gather while it is evaluated."""

    def __init__(self, expander: Expander, files: Collection[str], start: int) -> None:
        self.expander, self.files, self.start = expander, files, start
        self.opens: list[Open] = []

    def nested(self, inner: Callable[[], bool], at: int) -> bool:
        """What stands in a parenthesis, or behind ``!``."""
        self.expander.depth += 1
        if self.expander.depth > MOST_DEPTH:
            raise self.expander.source.error(at, "a condition is nested too deeply.")
        value = inner()
        self.expander.depth -= 1
        return value

    def known(self, word: Word) -> str:
        if not word.known:
            raise UnknownError(word.opens)
        self.opens.extend(word.opens)
        return word.text

    def unary(self, operator: str, word: Word) -> bool:
        if operator == "-z":
            return not self.known(word)
        if operator == "-n":
            return bool(self.known(word))
        if operator == "-v":
            name = self.known(word)
            if name in self.expander.state.variables:
                return bool(self.expander.state.variables[name].values)
            self.opens.append(Open(name, "", word.written))
            return False
        path = self.known(word)
        if path.removeprefix("./") in self.files and operator in ("-e", "-f", "-r", "-s"):
            return True
        raise UnknownError(())

    def binary(self, left: Word, operator: str, right: Word) -> bool:
        if operator in BETWEEN_FILES:
            raise UnknownError(())
        a, b = self.known(left), self.known(right)
        if operator in TEXTS:
            return TEXTS[operator](a, b)
        numbers = [int(found[1] + found[2]) for one in (a, b) if (found := INTEGER.fullmatch(one))]
        if len(numbers) < 2 or any(wrapped(one) != one for one in numbers):
            return False
        return NUMBERS[operator](*numbers)


class _Single(_Test):
    """``test`` by the number of its arguments, then by precedence, as bash does."""

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
        value = self.either()
        return value if self.at == len(words) else False

    def operator(self, text: str) -> bool:
        return text in NUMBERS or text in TEXTS or text in BETWEEN_FILES

    def asks(self, text: str) -> bool:
        return text in ("-z", "-n", "-v") or text in FILES

    def text(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.words[at].text if at < len(self.words) else ""

    def either(self) -> bool:
        value = self.both()
        while self.text() == "-o":
            self.at += 1
            value = self.both() or value
        return value

    def both(self) -> bool:
        value = self.one()
        while self.text() == "-a":
            self.at += 1
            value = self.one() and value
        return value

    def one(self) -> bool:
        if self.at >= len(self.words):
            return False
        if self.text() == "!":
            self.at += 1
            return not self.nested(self.one, self.start)
        if self.text() == "(":
            self.at += 1
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


class _Double(_Test):
    """``[[ … ]]``, read from its text: what is not reached is not evaluated."""

    def all(self, start: int, end: int) -> bool:
        self.at, self.end = start, end
        self.counts = True
        value = self.either()
        if self.blank() < end:
            raise self.expander.source.error(self.at, "this condition could not be read.")
        return value

    def blank(self) -> int:
        text = self.expander.source.text
        while self.at < self.end and (
            text[self.at].isspace() or text.startswith("\\\n", self.at)
        ):
            self.at += 2 if text[self.at] == "\\" else 1
        return self.at

    def sign(self, sign: str) -> bool:
        if self.expander.source.text.startswith(sign, self.blank(), self.end):
            self.at += len(sign)
            return True
        return False

    def either(self) -> bool:
        value = self.both()
        while self.sign("||"):
            before, self.counts = self.counts, self.counts and not value
            right = self.both()
            value, self.counts = value or right, before
        return value

    def both(self) -> bool:
        value = self.one()
        while self.sign("&&"):
            before, self.counts = self.counts, self.counts and value
            right = self.one()
            value, self.counts = value and right, before
        return value

    def one(self) -> bool:
        text = self.expander.source.text
        if text.startswith("!", self.blank()) and text[self.at + 1 : self.at + 2] in " \t\n(":
            self.at += 1
            return not self.nested(self.one, self.at)
        if self.sign("("):
            value = self.nested(self.either, self.at)
            if not self.sign(")"):
                raise self.expander.source.error(self.at, "a parenthesis is not closed.")
            return value
        return self.primary()

    def raw(self) -> Raw:
        raw = self.expander.reader.word(self.blank(), self.end)
        if raw.end == raw.start:
            raise self.expander.source.error(self.at, "this condition could not be read.")
        self.at = raw.end
        return raw

    def primary(self) -> bool:
        first = self.raw()
        text, after = self.expander.source.text, self.at
        plain = text[first.start : first.end]
        if (plain in ("-z", "-n", "-v") or plain in FILES) and self.blank() < self.end:
            operator = BEHIND.match(text, self.at)
            if not operator:
                operand = self.raw()
                return self.counts and self.unary(plain, self.expander.text(operand))
            self.at = after
        found = COMPARES.match(text, self.blank(), self.end)
        if not found:
            return self.counts and bool(self.known(self.expander.text(first)))
        self.at = found.end()
        operator_text = found[0]
        right = self.pattern_raw() if operator_text in ("=~", "==", "=", "!=") else self.raw()
        if not self.counts:
            return False
        left = self.expander.text(first)
        if operator_text == "=~":
            return self.found(left, right)
        if operator_text in ("==", "=", "!="):
            subject = self.known(left)
            pattern = self.expander.pattern(right, self.opens)
            cost = (len(pattern) + 1) * (len(subject) + 1)
            self.expander.state.effort.spend(cost)
            return patterns.matches(pattern, subject) != (operator_text == "!=")
        if operator_text in NUMBERS:
            a, first_opens = self.expander.value(self.expander.text(first), first.start)
            b, second_opens = self.expander.value(self.expander.text(right), right.start)
            self.opens.extend((*first_opens, *second_opens))
            return NUMBERS[operator_text](a, b)
        return self.binary(left, operator_text, self.expander.text(right))

    def pattern_raw(self) -> Raw:
        """What stands on the right of ``=~`` or ``==``, whose parentheses are its own."""
        text, start = self.expander.source.text, self.blank()
        at, depth = start, 0
        while at < self.end:
            one = text[at]
            if one == "\\":
                at += 2
            elif one in "'\"$":
                at = max(self.expander.reader.word(at, self.end).end, at + 1)
            elif one == "(":
                depth, at = depth + 1, at + 1
            elif one == ")" and depth:
                depth, at = depth - 1, at + 1
            elif one.isspace() and not depth or one in META and not depth and one not in "<>":
                break
            else:
                at += 1
        self.at = min(at, self.end)
        return self.expander.reader.all(start, self.at, BARE)

    def found(self, left: Word, right: Raw) -> bool:
        """Whether a regular expression matches, whose groups are ``BASH_REMATCH`` then."""
        subject, written = self.known(left), ""
        for text, quoted in self.expander.runs(right, self.opens):
            written += re.escape(text) if quoted else text
        spans = regular.spans(written, subject, self.expander.state.effort)
        if spans is None:
            raise UnknownError(())
        groups: dict[int | str, Word] = {
            index: left.part(max(first, 0), max(last, 0))
            for index, (first, last) in enumerate(spans)
        }
        self.expander.state.variables["BASH_REMATCH"] = Variable(groups, "array")
        return bool(spans)


def single(words: list[Word], expander: Expander, files: Collection[str], at: int) -> Status:
    """``[ … ]`` or ``test …``; what the text does not say makes it false."""
    test = _Single(expander, files, at)
    try:
        return Status(test.all(words), tuple(dict.fromkeys(test.opens)))
    except UnknownError:
        shown = " ".join(word.text for word in words)
        return unknown(f"[ {shown} ]", expander, at)


def double(start: int, end: int, expander: Expander, files: Collection[str]) -> Status:
    """``[[ … ]]`` between these positions."""
    test = _Double(expander, files, start)
    try:
        return Status(test.all(start, end), tuple(dict.fromkeys(test.opens)))
    except UnknownError:
        return unknown(f"[[ {expander.source.text[start:end].strip()} ]]", expander, start)


