"""``[[ … ]]``: conditions by their text, of which only what is reached is expanded."""

from __future__ import annotations

import re
from collections.abc import Collection

from planner.importer.given import Word
from planner.importer.shell import patterns, regular
from planner.importer.shell.conditions import FILES, NUMBERS, Condition, Status, unknown
from planner.importer.shell.evaluation import UnknownError
from planner.importer.shell.expansion import Expander
from planner.importer.shell.parts import BARE, Raw
from planner.importer.shell.variables import Variable
from planner.importer.shell.words import META

COMPARES = re.compile(r"=~|==?|!=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef)\b")
BEHIND = re.compile(COMPARES.pattern + r"|&&|\|\||\)")
"""What follows a word that is no operator of one file or text."""


class _Double(Condition):
    """``[[ … ]]``, read from its text: what is not reached is not evaluated."""

    def all(self, start: int, end: int) -> bool:
        self.at, self.end = start, end
        value = bool(self.either())
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


def double(start: int, end: int, expander: Expander, files: Collection[str]) -> Status:
    """``[[ … ]]`` between these positions."""
    test = _Double(expander, files, start)
    try:
        return Status(test.all(start, end), tuple(dict.fromkeys(test.opens)))
    except UnknownError:
        return unknown(f"[[ {expander.source.text[start:end].strip()} ]]", expander, start)
