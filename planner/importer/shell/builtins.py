"""The shell's own commands that change what a script has said."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.importer.given import Open, Piece, Word, of_pieces
from planner.importer.shell.evaluation import UnknownError
from planner.importer.shell.expansion import Expander
from planner.importer.shell.parts import Assignment, Raw
from planner.importer.shell.variables import UNSET, State, Variable, open_word, resting

NAME = re.compile(r"[A-Za-z_]\w*")


class Leaves(Exception):
    """``exit``, ``return``, ``break`` or ``continue``."""

    def __init__(self, how: str, levels: int = 1, success: bool = True) -> None:
        super().__init__(how)
        self.how, self.levels, self.success = how, levels, success


def leave(words: Sequence[Word]) -> Leaves:
    """What to raise for one of them."""
    how, number = words[0].text, words[1].text if len(words) > 1 else ""
    count = int(number) if number.isdigit() and len(number) < 4 else 0
    return Leaves(how, max(count, 1), not count)


def assign(one: Assignment, expander: Expander) -> None:
    """``name=value``, ``name[key]=value``, ``name=(…)``; also with ``+=``."""
    state, name = expander.state, one.name
    try:
        if isinstance(one.value, tuple):
            _assign_many(one, one.value, expander)
        else:
            value = expander.text(one.value)
            key = None
            if one.subscript is not None:
                at = one.value.start
                key = expander.key(state.variables.get(name, UNSET), one.subscript, at)
            state.assign(name, value, key, one.append)
    except UnknownError as error:
        unknown = resting(open_word(name, None), error.opens)
        state.variables[name] = Variable({0: unknown})
    state.note(expander.dropped)
    expander.dropped.clear()


def _assign_many(
    one: Assignment, elements: tuple[Assignment | Raw, ...], expander: Expander
) -> None:
    state = expander.state
    old = state.variables.get(one.name, UNSET)
    kind = "map" if old.kind == "map" else "array"
    values: dict[int | str, Word] = dict(old.values) if one.append else {}
    index = max((int(key) for key in values if isinstance(key, int)), default=-1) + 1
    for element in elements:
        if isinstance(element, Raw):
            for word in expander.words(element):
                values[index] = resting(word, state.under)
                index += 1
        elif isinstance(element.value, Raw):
            at = element.value.start
            key = expander.key(Variable({}, kind), element.subscript or element.name, at)
            values[key] = resting(expander.text(element.value), state.under)
            index = key + 1 if isinstance(key, int) else index
    state.variables[one.name] = Variable(values, kind, old.exported)


def declare(
    words: Sequence[Word | Assignment],
    expander: Expander,
    frame: dict[str, Variable | None] | None,
) -> None:
    """``export``, ``local``, ``declare`` and the like; ``frame`` keeps what a function hides."""
    state = expander.state
    head = words[0].text if isinstance(words[0], Word) else ""
    flags = "".join(one.text for one in words if isinstance(one, Word) and one.text[:1] == "-")
    if "f" in flags or "p" in flags or "n" in flags:
        return
    exports = head == "export" or "x" in flags
    kind = "map" if "A" in flags else "array" if "a" in flags else "one"
    for one in words[1:]:
        if isinstance(one, Word) and one.text[:1] in ("-", "+"):
            continue
        found = NAME.match(one.text) if isinstance(one, Word) else None
        name = one.name if isinstance(one, Assignment) else found[0] if found else ""
        if not name:
            continue
        if frame is not None and head != "export" and "g" not in flags and head != "readonly":
            frame.setdefault(name, state.variables.get(name))
            if not (isinstance(one, Assignment) and one.append):
                state.variables[name] = Variable({}, kind)
        elif kind != "one" and state.variables.get(name, UNSET).kind == "one":
            state.variables[name] = Variable({}, kind)
        if isinstance(one, Assignment):
            assign(one, expander)
        elif one.text[len(name) : len(name) + 1] == "=":
            state.assign(name, one.part(len(name) + 1))
        if exports and (known := state.variables.get(name)):
            state.variables[name] = Variable(known.values, known.kind, True)
        elif exports:
            state.passed |= {name}


def unset(words: Sequence[Word], state: State) -> None:
    """``unset name…``, ``unset name[key]``."""
    functions = any(word.text == "-f" for word in words)
    for word in words[1:]:
        found = re.fullmatch(r"([A-Za-z_]\w*)(?:\[(\w+)\])?", word.text)
        if not found:
            continue
        if functions or (found[1] not in state.variables and found[1] in state.functions):
            state.functions.pop(found[1], None)
        elif found[2] is None:
            state.variables[found[1]] = UNSET
            state.passed -= {found[1]}
        elif variable := state.variables.get(found[1]):
            values = {k: v for k, v in variable.values.items() if str(k) != found[2]}
            state.variables[found[1]] = Variable(values, variable.kind, variable.exported)


def set_options(words: Sequence[Word], expander: Expander) -> None:
    """``set -a``, ``set -- …``: exporting all, and arguments; other options change no value."""
    state = expander.state
    for at, word in enumerate(words[1:], 1):
        if re.fullmatch(r"[-+][a-zA-Z]*a[a-zA-Z]*", word.text):
            state.exports = word.text.startswith("-")
        if word.text == "--" or word.text[:1] not in ("-", "+"):
            if re.fullmatch(r"[-+][a-zA-Z]*o", words[at - 1].text):
                continue  # the option's name: ``set -euo pipefail``
            state.arguments = list(words[at + (word.text == "--") :])
            state.more_arguments = any(one.name == "$@" for one in expander.dropped)
            state.shifted = 0
            return


def shift(words: Sequence[Word], state: State) -> bool:
    """``shift [n]``; whether there was so much to drop."""
    count = int(words[1].text) if len(words) > 1 and words[1].text[:4].isdigit() else 1
    enough = count <= len(state.arguments)
    if enough or state.more_arguments:
        del state.arguments[:count]
        state.shifted += count
    return enough


def read(words: Sequence[Word], state: State, given: Word | None, place: Word) -> None:
    """``read``, ``mapfile``: names whose values come from what is read."""
    texts = [word.text for word in words]
    names, at = list[str](), 1
    whole = False
    while at < len(texts):
        if texts[at].startswith("-") and len(texts[at]) > 1:
            takes = texts[at][-1] in "dnNptuia"
            whole = whole or (texts[at].endswith("d") and texts[at + 1 : at + 2] == [""])
            if texts[at].endswith("a") and at + 1 < len(texts):
                names.append(texts[at + 1])
            at += 2 if takes else 1
            continue
        names.append(texts[at])
        at += 1
    for name in names or ["REPLY"]:
        if not NAME.fullmatch(name):
            continue
        if whole and given is not None:
            text = given.text.strip()
            start = given.text.find(text)
            state.assign(name, given.part(start, start + len(text)) if text else of_pieces([]))
        else:
            state.variables[name] = Variable({0: open_word(name, place.written)})


def echoed(words: Sequence[Word]) -> Word | None:
    """What ``echo`` prints."""
    at, ending = 1, "\n"
    while at < len(words) and words[at].text in ("-n", "-e", "-ne", "-en", "-E"):
        if "e" in words[at].text and any("\\" in word.text for word in words):
            return None
        ending = "" if "n" in words[at].text else ending
        at += 1
    pieces: list[Piece] = []
    for word in words[at:]:
        pieces.extend((*([Piece(" ", None)] if pieces else []), *word.pieces))
    return of_pieces([*pieces, Piece(ending, None)])


def arguments_open(expander: Expander) -> bool:
    """Whether ``"$@"`` was among the words that were just expanded."""
    return any(one == Open("$@", "", one.place) for one in expander.dropped)
