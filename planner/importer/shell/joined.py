"""Operands joined by *and* and *or*, as arithmetic, ``[ … ]`` and ``[[ … ]]`` join them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Joined(ABC):
    """Reads operands from left to right; *and* binds closer."""

    either_sign, both_sign = "||", "&&"
    counts = True
    """Whether what is read is evaluated, too: behind ``0 &&`` it is not."""

    @abstractmethod
    def sign(self, sign: str, /) -> object:
        """Whether this sign is next; it is read then."""

    @abstractmethod
    def one(self) -> int:
        """An operand."""

    def either(self) -> int:
        """Operands joined by *or*; of one alone its own value."""
        value = self.both()
        while self.sign(self.either_sign):
            value = self.counted(self.both, not value) or bool(value)
        return value

    def both(self) -> int:
        """Operands joined by *and*; of one alone its own value."""
        value = self.one()
        while self.sign(self.both_sign):
            value = self.counted(self.one, bool(value)) and bool(value)
        return value

    def counted(self, read: Callable[[], int], counts: bool) -> bool:
        """What follows, evaluated where it decides."""
        before, self.counts = self.counts, self.counts and counts
        value = bool(read())
        self.counts = before
        return value
