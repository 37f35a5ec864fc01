"""``$((…))``: bash's integers of 64 bits, their operators and assignments."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from planner.importer.shell.joined import Joined

TOKEN = re.compile(
    r"\s*(?:(\d+#[\w@]+|0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)(\[)?"
    r"|(<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>&|^!~?:=(),]))"
)
NAMED = re.compile(r"\s*[A-Za-z_]")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_"
MOST_DEPTH = 40


class ExpressionError(ValueError):
    """An expression that bash would refuse as well."""


def wrapped(value: int) -> int:
    """As a signed integer of 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def number(text: str) -> int:
    """A constant: decimal, octal, hexadecimal or of a named base."""
    base, _, digits = text.partition("#")
    if digits:
        found = int(base)
        if not 2 <= found <= 64:
            raise ExpressionError(f"{text} has a base that is none.")
        value = 0
        for one in digits if found > 36 else digits.lower():
            if (digit := DIGITS.index(one)) >= found:
                raise ExpressionError(f"{text} has a digit too large for its base.")
            value = value * found + digit
        return wrapped(value)
    if len(text) > 100:
        raise ExpressionError("a number has more than 100 digits.")
    if text[:2] in ("0x", "0X"):
        return wrapped(int(text, 16))
    try:
        return wrapped(int(text, 8 if text.startswith("0") else 10))
    except ValueError as error:
        raise ExpressionError(f"{text} is no number.") from error


def _quotient(a: int, b: int) -> int:
    if not b:
        raise ExpressionError("something is divided by zero.")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: int, b: int) -> int:
    if b < 0:
        raise ExpressionError("an exponent is negative.")
    return pow(a, b, 2**64)


OPERATORS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": lambda a, b: a << (b & 63), ">>": lambda a, b: a >> (b & 63)},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)},
)
"""Those of two sides that are all evaluated, the loosest first."""
EVERY = {name: act for level in OPERATORS for name, act in level.items()}

Read = Callable[[str, str | None], int]
Write = Callable[[str, str | None, int], None]


def evaluated(text: str, read: Read, write: Write) -> int:
    """The value of an expression; names are read and assigned by what is handed in.

    Raises:
        ExpressionError: where bash would not evaluate it either.
    """
    return _Expression(text, read, write).whole()


class _Expression(Joined):
    def __init__(self, text: str, read: Read, write: Write) -> None:
        self.tokens: list[tuple[str, str, str | None]] = []
        text, at = text.rstrip(), 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise ExpressionError(f"{text[at : at + 20].strip()} is no part of an expression.")
            at, subscript = found.end(), None
            if found[3]:
                close = at
                depth = 1
                while close < len(text) and depth:
                    depth += {"[": 1, "]": -1}.get(text[close], 0)
                    close += 1
                subscript, at = text[at : close - 1], close
            kind = "number" if found[1] else "name" if found[2] else "sign"
            sign = found[4] or ""
            behind = bool(self.tokens) and self.tokens[-1][0] == "name"
            if sign in ("++", "--") and not behind and not NAMED.match(text, at):
                sign, at = sign[0], at - 1
            self.tokens.append((kind, found[1] or found[2] or sign, subscript))
        self.at, self.depth = 0, 0
        self.read, self.write = read, write

    def whole(self) -> int:
        if not self.tokens:
            return 0
        value = self.comma()
        if self.at < len(self.tokens):
            raise ExpressionError(f"{self.tokens[self.at][1]} is where nothing is expected.")
        return value

    def sign(self, *wanted: str) -> str:
        if self.at < len(self.tokens):
            kind, text, _ = self.tokens[self.at]
            if kind == "sign" and text in wanted:
                self.at += 1
                return text
        return ""

    def comma(self) -> int:
        value = self.assigned()
        while self.sign(","):
            value = self.assigned()
        return value

    def assigned(self) -> int:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ExpressionError("an expression is nested too deeply.")
        start = self.at
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "name":
            _, name, subscript = self.tokens[self.at]
            self.at += 1
            signs = ("=", *(f"{one}=" for one in "+-*/%&|^"), "<<=", ">>=")
            if sign := self.sign(*signs):
                right = self.assigned()
                if sign != "=" and self.counts:
                    right = wrapped(int(EVERY[sign[:-1]](self.read(name, subscript), right)))
                if self.counts:
                    self.write(name, subscript, right)
                self.depth -= 1
                return right
            self.at = start
        value = self.chosen()
        self.depth -= 1
        return value

    def chosen(self) -> int:
        condition = int(self.either())
        if not self.sign("?"):
            return condition
        counts = self.counts
        self.counts = counts and bool(condition)
        yes = self.comma()
        if not self.sign(":"):
            raise ExpressionError("a ? is without its colon.")
        self.counts = counts and not condition
        no = self.assigned()
        self.counts = counts
        return yes if condition else no

    def one(self) -> int:
        return self.level(0)

    def level(self, index: int) -> int:
        if index == len(OPERATORS):
            return self.power()
        value = self.level(index + 1)
        while sign := self.sign(*OPERATORS[index]):
            right = self.level(index + 1)
            if self.counts or sign not in "/%":
                value = wrapped(int(OPERATORS[index][sign](value, right)))
        return value

    def power(self) -> int:
        base = self.unary()
        if self.sign("**"):
            exponent = self.power()
            return wrapped(_power(base, exponent)) if self.counts else 0
        return base

    def unary(self) -> int:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ExpressionError("an expression is nested too deeply.")
        sign = self.sign("!", "~", "-", "+", "++", "--")
        if not sign:
            value = self.operand()
        elif sign in ("++", "--"):
            value = self.stepped(1 if sign == "++" else -1)
        else:
            value = self.unary()
            value = {"!": int(not value), "~": ~value, "-": -value, "+": value}[sign]
        self.depth -= 1
        return wrapped(value)

    def stepped(self, step: int) -> int:
        _, name, subscript = self.tokens[self.at]
        self.at += 1
        if not self.counts:
            return 0
        value = wrapped(self.read(name, subscript) + step)
        self.write(name, subscript, value)
        return value

    def operand(self) -> int:
        if self.sign("("):
            value = self.comma()
            if not self.sign(")"):
                raise ExpressionError("a parenthesis is not closed.")
            return value
        if self.at >= len(self.tokens) or self.tokens[self.at][0] == "sign":
            raise ExpressionError("an operand is missing.")
        kind, text, subscript = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return number(text)
        value = self.read(text, subscript) if self.counts else 0
        if (step := self.sign("++", "--")) and self.counts:
            self.write(text, subscript, wrapped(value + (1 if step == "++" else -1)))
        return value
