"""Words of a shell text as they are written: literals, quotes and expansions with their spans."""

from __future__ import annotations

import re

from planner.importer.shell.closings import Closings
from planner.importer.shell.parts import (
    BARE,
    BRACED_DOUBLE,
    DOCUMENT,
    DOUBLE,
    QUOTED,
    SINGLE,
    Arithmetic,
    Assignment,
    Command,
    Literal,
    Parameter,
    Part,
    Raw,
    Substitution,
)

META = frozenset(" \t\n;&|<>()")
NAME = re.compile(r"[A-Za-z_]\w*")
SPECIAL = re.compile(r"[@*#?$!0-9-]")
NUMBERED = re.compile(r"\d+|[@*#?$!-]")
ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\[)?")
KEYED = re.compile(r"\[([^][\n]*)\]=")
OPERATOR = re.compile(r":?[-=+?]|##?|%%?|/[/#%]?|\^\^?|,,?|@[A-Za-z]|:")
REDIRECT = re.compile(r"(\d*|&|\{\w+\})(<<<|<<-?|<&|<>|>>|>&|>\||<(?!\()|>(?!\())")
DECLARES = frozenset(("export", "declare", "local", "readonly", "typeset"))
PLAIN = re.compile(r"[^\\'\"$`<>|&;()\s]+")
PLAIN_IN_BRACES = re.compile(r"[^\\'\"$`<>|&;()\s/:]+")
ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"},
    **{"e": "\x1b", "E": "\x1b", "\\": "\\", "'": "'", '"': '"', "?": "?"},
}
ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.S
)


class Reader(Closings):
    """Reads words from a source. All positions are characters of its text."""

    def simple(self, at: int, end: int) -> Command:
        """The command that begins at ``at``: up to ``end``, or to what ends one before it."""
        command = Command(at, at)
        declares = False
        while (at := self.blank(at, end)) < end and self.text[at] not in "\n;|)":
            if found := REDIRECT.match(self.text, at, end):
                begin = self.blank(found.end(), end)
                target = self.word(begin, end)
                command.redirects.append((found[2], target))
                at = command.end = max(target.end, found.end())
                continue
            if self.text[at] == "&":
                break
            assignment = None
            if declares or not command.words:
                assignment = self.assignment(at, end)
            if assignment:
                found_one, at = assignment
                (command.words if command.words else command.assignments).append(found_one)
            else:
                word = self.word(at, end)
                if word.end == at:
                    break
                command.words.append(word)
                declares = declares or (len(command.words) == 1 and word.literal in DECLARES)
                at = word.end
            command.end = at
        return command

    def assignment(self, at: int, end: int) -> tuple[Assignment, int] | None:
        """An assignment that begins here, and where it ends."""
        found = ASSIGNED.match(self.text, at, end)
        if not found:
            return None
        after, subscript = found.end(), None
        if found[2]:
            close = self.bracketed(after, end)
            subscript, after = self.text[after : close - 1], close
        append = self.text.startswith("+=", after)
        if not append and not self.text.startswith("=", after):
            return None
        after += 2 if append else 1
        if after < end and self.text[after] == "(":
            elements, after = self.array(after + 1, end)
            return Assignment(found[1], subscript, append, elements), after
        value = self.word(after, end)
        return Assignment(found[1], subscript, append, value), value.end

    def array(self, at: int, end: int) -> tuple[tuple[Assignment | Raw, ...], int]:
        """What stands between the parentheses of an array, and where it ends."""
        elements: list[Assignment | Raw] = []
        while True:
            at = self.blank(at, end, lines=True)
            if at >= end or self.text[at] == ")":
                return tuple(elements), min(at + 1, end)
            if keyed := KEYED.match(self.text, at, end):
                value = self.word(keyed.end(), end)
                elements.append(Assignment("", keyed[1], False, value))
                at = value.end
                continue
            word = self.word(at, end)
            if word.end == at:
                raise self.source.error(at, "this array could not be read.")
            elements.append(word)
            at = word.end

    def word(self, at: int, end: int) -> Raw:
        """The word that begins at ``at``, which is empty where none does."""
        parts, after = self._parts(at, end, BARE, META)
        return Raw(at, after, parts)

    def several(self, at: int, end: int) -> list[Raw]:
        """All words of a span."""
        found = []
        while (at := self.blank(at, end, lines=True)) < end:
            word = self.word(at, end)
            if word.end == at:
                raise self.source.error(at, "these words could not be read.")
            found.append(word)
            at = word.end
        return found

    def all(self, at: int, end: int, form: str, stops: frozenset[str] = frozenset()) -> Raw:
        """Everything of a span as one word, written in the way of ``form``."""
        parts, after = self._parts(at, end, form, stops)
        return Raw(at, after, parts)

    def blank(self, at: int, end: int, lines: bool = False) -> int:
        """After blanks, joined lines and comments."""
        text = self.text
        while at < end:
            if text[at] in " \t" or (lines and text[at] == "\n"):
                at += 1
            elif text.startswith("\\\n", at):
                at += 2
            elif text[at] == "#":
                stop = text.find("\n", at, end)
                at = end if stop < 0 else stop
            else:
                break
        return at

    def _parts(
        self, at: int, end: int, form: str, stops: frozenset[str]
    ) -> tuple[tuple[Part, ...], int]:
        text, parts = self.text, list[Part]()
        quoted = form in QUOTED
        run = at  # where the literal begins that is being read
        plain = PLAIN if stops <= META else PLAIN_IN_BRACES

        def flush(upto: int) -> None:
            if run < upto:
                parts.append(Literal(run, upto, text[run:upto], form, quoted))

        while at < end:
            if found := plain.match(text, at, end):
                at = found.end()
                continue
            one = text[at]
            if one in stops and not (one in "<>" and text.startswith("(", at + 1)):
                break
            if one == "\\" and at + 1 < end:
                special = '$`"\\\n' if form != DOCUMENT else "$`\\\n"
                after = text[at + 1]
                if not quoted or after in special or (after == "}" and form == BRACED_DOUBLE):
                    flush(at)
                    if after != "\n":
                        parts.append(Literal(at, at + 2, after, form, True))
                    at = run = at + 2
                    continue
                at += 2
            elif one == "'" and not quoted:
                flush(at)
                close = self.find("'", at + 1, end)
                parts.append(Literal(at + 1, close, text[at + 1 : close], SINGLE, True))
                at = run = close + 1
            elif one == '"' and form != DOCUMENT:
                flush(at)
                close = self.doubled(at + 1, end)
                inside, _ = self._parts(at + 1, close - 1, DOUBLE, frozenset())
                parts.extend(inside or (Literal(at + 1, at + 1, "", DOUBLE, True),))
                at = run = close
            elif one == "$" and not quoted and text.startswith("$'", at):
                flush(at)
                close = at + 2
                while close < end and text[close] != "'":
                    close += 2 if text[close] == "\\" else 1
                decoded = _decoded(text[at + 2 : close])
                parts.append(Literal(at, min(close + 1, end), decoded, form, True))
                at = run = close + 1
            elif one == "$" and not quoted and text.startswith('$"', at):
                flush(at)
                at = run = at + 1
            elif one in "$`" or (one in "<>" and not quoted and text.startswith("(", at + 1)):
                expansion = self._expansion(at, end, form)
                if expansion is None:
                    at += 1
                    continue
                flush(at)
                parts.append(expansion)
                at = run = expansion.end
            else:
                at += 1
        flush(at)
        return tuple(parts), at

    def _expansion(self, at: int, end: int, form: str) -> Part | None:
        text = self.text
        if text[at] == "`":
            close = at + 1
            while close < end and text[close] != "`":
                close += 2 if text[close] == "\\" else 1
            return Substitution(at, min(close + 1, end), form)
        if text.startswith("((", at + 1):
            close = self.nested(at + 2, end)
            inner = self.nested(at + 3, end)
            if inner == close - 1:
                return Arithmetic(at, close, form, (at + 3, close - 2))
            return Substitution(at, close, form)
        following = text[at + 1 : at + 2]
        if following == "(":
            return Substitution(at, self.nested(at + 2, end), form)
        if following == "[":
            close = self.bracketed(at + 2, end)
            return Arithmetic(at, close, form, (at + 2, close - 1))
        if following == "{":
            return self._braced_parameter(at, end, form)
        found = NAME.match(text, at + 1, end) or SPECIAL.match(text, at + 1, end)
        return Parameter(at, found.end(), form, found[0]) if found else None

    def _braced_parameter(self, at: int, end: int, form: str) -> Part:
        text = self.text
        close = self.braced(at, end, form in QUOTED)
        inside = close - 1
        begin = at + 2
        length = text[begin] == "#" and inside - begin > 1 and text[begin + 1] not in ":-+=?%/"
        indirect = text[begin] == "!" and inside - begin > 1
        begin += length or indirect
        found = NAME.match(text, begin, inside) or NUMBERED.match(text, begin, inside)
        if not found:
            raise self.source.error(at, f"{text[at:close][:40]} is no expansion.")
        after, subscript = found.end(), None
        if after < inside and text[after] == "[":
            stop = self.bracketed(after + 1, inside)
            subscript, after = text[after + 1 : stop - 1], stop
        operator = "length" if length else "!" if indirect else ""
        argument = (after, inside)
        if not operator and after < inside:
            written = OPERATOR.match(text, after, inside)
            if not written:
                raise self.source.error(at, f"{text[at:close][:40]} is no expansion.")
            operator, argument = written[0], (written.end(), inside)
        elif after < inside:
            operator += "*"  # ${!x@}, ${!x-y}: what it means nobody needs
        return Parameter(at, close, form, found[0], subscript, operator, argument)


def _decoded(text: str) -> str:
    """What ``$'…'`` stands for."""

    def one(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code or found[4]:
            number = int(code, 16) if code else int(found[4], 8) & 255
            return chr(number) if number < 0x110000 else found[0]
        return ESCAPES.get(found[5], found[0])

    return ANSI.sub(one, text)
