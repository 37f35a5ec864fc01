"""Control flow of a script: which statements bash would come to, by what the text says.

A condition on what comes from outside is taken as it is where nobody gave anything, and whatever
is said under it rests on that. Where this would end the script before it started a program, as
after "usage: …", the other branch is taken: whoever has the script runs it as it wants to be run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from planner.importer.given import Launch, Open, Place, Word
from planner.importer.shell import conditions, patterns
from planner.importer.shell.builtins import Leaves
from planner.importer.shell.conditions import Status
from planner.importer.shell.expansion import Expander, UnknownError
from planner.importer.shell.source import Source
from planner.importer.shell.tree import SIMPLE, Tree, assigned, child, fields, statements
from planner.importer.shell.variables import State, Variable, resting
from planner.importer.shell.words import Raw

MOST_STATEMENTS_DEEP = 60
STEP = 30
"""What one statement costs beside the characters that it looks at."""


@dataclass(frozen=True, slots=True)
class Here:
    """The source that statements are of, and its tree."""

    source: Source
    tree: Tree


class Flow(ABC):
    """Follows statements; what a simple command does is left to who follows a script."""

    def __init__(self) -> None:
        self.state = State()
        self.launches: list[Launch] = []
        self.unread: list[Place] = []
        self.files: set[str] = set()
        self.nested = 0
        self.printed: Word | None = None
        """What the last command printed, where the text says it."""
        self.piped: Word | None = None
        """What the command at hand is given to read."""

    @abstractmethod
    def simple(self, here: Here, start: int, end: int, documents: Sequence[Word] = ()) -> Status:
        """The simple command that is written in this span."""

    def expander(self, here: Here, asks: bool = False) -> Expander:
        """To expand words of a source; one that ``asks`` takes what nobody set as empty."""
        made = Expander(here.source, self.state)
        made.empty = asks
        return made

    def block(self, nodes: Sequence[Any], here: Here) -> Status:
        """Statements one after the other."""
        status = Status(True)
        for node in nodes:
            status = self.statement(node, here)
        return status

    def statement(self, node: Any, here: Here) -> Status:
        """One statement, by its kind in the tree."""
        start, end = here.tree.span(node)
        self.state.effort.reach(here.source, start)
        self.state.effort.spend(STEP)
        self.nested += 1
        if self.nested > MOST_STATEMENTS_DEEP:
            raise here.source.error(start, "statements are nested too deeply to be read.")
        try:
            if node.type in SIMPLE:
                return self.simple(here, start, end)
            act = ACTS.get(node.type)
            return act(self, node, here) if act else Status(True)
        finally:
            self.nested -= 1

    def under(self, opens: tuple[Open, ...], act: Callable[[], Status]) -> Status:
        """Do something that is only come to because of these."""
        before = self.state.under
        self.state.under = tuple(dict.fromkeys((*before, *opens)))
        try:
            return act()
        finally:
            self.state.under = before

    def either(
        self,
        opens: tuple[Open, ...],
        chosen: Callable[[], Status],
        other: Callable[[], Status],
        skipped: Callable[[], str],
    ) -> Status:
        """Of two branches the chosen one, and the other where that would end the script.

        What the skipped text assigns rests on the choice as well.
        """
        if not opens:
            return chosen()
        before, count, files = self.state.copied(), len(self.launches), set(self.files)
        for branch in (chosen, other):
            try:
                status = self.under(opens, branch)
                break
            except Leaves as left:
                if left.how != "exit" or len(self.launches) > count:
                    raise
                self.state.restore(before.copied())
                self.files = set(files)
        else:
            status = Status(True)
        self.rest(skipped(), opens)
        return status

    def rest(self, text: str, opens: tuple[Open, ...]) -> None:
        """What this text assigns rests on why it was skipped, or come to."""
        self.state.effort.spend(len(text) // 16)
        for name in assigned(text):
            if variable := self.state.variables.get(name):
                values = {key: resting(word, opens) for key, word in variable.values.items()}
                self.state.variables[name] = Variable(values, variable.kind, variable.exported)

    def inside(self, act: Callable[[], Status]) -> Status:
        """In a shell of its own: what is assigned there stays there."""
        before = self.state.copied()
        try:
            return act()
        except Leaves as left:
            return Status(left.success)
        finally:
            self.state.restore(before)


def _text(nodes: Sequence[Any], here: Here) -> str:
    return " ".join(here.tree.text(node) for node in nodes)


def _split(node: Any, *words: str) -> list[list[Any]]:
    """Statements of a node, cut at these keywords."""
    found: list[list[Any]] = [[]]
    for one in node.children:
        if one.type in words:
            found.append([])
        elif one.is_named and one.type != "comment":
            found[-1].append(one)
    return found


def _if(flow: Flow, node: Any, here: Here) -> Status:
    branches: list[tuple[list[Any], list[Any]]] = []
    otherwise: list[Any] = []
    _, condition, body = (*_split(node, "if", "then"), [], [])[:3]
    branches.append((condition, [n for n in body if n.type not in ("elif_clause", "else_clause")]))
    for one in body:
        if one.type == "elif_clause":
            _, condition, then = (*_split(one, "elif", "then"), [], [])[:3]
            branches.append((condition, then))
        elif one.type == "else_clause":
            otherwise = statements(one)

    def choose(index: int) -> Status:
        if index > MOST_STATEMENTS_DEEP:
            start = here.tree.span(node)[0]
            raise here.source.error(start, "a condition has more branches than are read.")
        if index == len(branches):
            return flow.block(otherwise, here)
        condition, body = branches[index]
        status = flow.block(condition, here)

        def first() -> Status:
            return flow.block(body, here)

        def second() -> Status:
            return choose(index + 1)

        def behind() -> str:
            rest = [each for c, b in branches[index + 1 :] for each in (*c, *b)]
            return _text([*rest, *otherwise], here)

        if status.success:
            return flow.either(status.opens, first, second, behind)
        return flow.either(status.opens, second, first, partial(_text, body, here))

    return choose(0)


def _list(flow: Flow, node: Any, here: Here) -> Status:
    status, operator = Status(True), ""
    for one in node.children:
        if one.type in ("&&", "||"):
            operator = one.type
        elif one.is_named and one.type != "comment":
            status = joined(flow, status, operator, one, here)
    return status


def joined(flow: Flow, left: Status, operator: str, node: Any, here: Here) -> Status:
    """``left && node`` and ``left || node``."""
    if not operator:
        return flow.statement(node, here)
    opens = () if left.ran else left.opens
    if left.success == (operator == "&&"):
        done = [left]

        def come_to() -> Status:
            done[0] = flow.statement(node, here)
            return done[0]

        flow.either(opens, come_to, lambda: left, str)
        return done[0] if done[0].opens or not opens else Status(done[0].success, opens)
    flow.rest(here.tree.text(node), left.opens)
    return left


def _pipeline(flow: Flow, node: Any, here: Here) -> Status:
    return piped(flow, statements(node), here)


def piped(flow: Flow, nodes: Sequence[Any], here: Here) -> Status:
    """Commands that read what the one before printed, each in a shell of its own."""
    status = Status(True)
    before = flow.piped
    for index, one in enumerate(nodes):
        flow.piped = flow.printed if index else before
        flow.printed = None
        status = flow.inside(partial(flow.statement, one, here))
    flow.piped = before
    return status


def _negated(flow: Flow, node: Any, here: Here) -> Status:
    status = flow.block(statements(node), here)
    return replace(status, success=not status.success)


def _loop(flow: Flow, node: Any, here: Here) -> Status:
    until = node.children[0].type == "until"
    body = fields(node, "body")
    condition = [one for one in statements(node) if one.id != (body[0].id if body else None)]
    return repeated(flow, lambda: flow.block(condition, here), body, here, until)


def repeated(
    flow: Flow,
    condition: Callable[[], Status],
    body: Sequence[Any],
    here: Here,
    until: bool = False,
    after: Callable[[], object] = lambda: None,
) -> Status:
    """A loop: once where its condition is open, and up to where a turn changes nothing more."""
    text = partial(_text, body, here)

    def turn() -> Status:
        return flow.block(body, here)

    while True:
        status = condition()
        if status.success == until:
            flow.rest(text() if status.opens else "", status.opens)
            return Status(True)
        variables, arguments = dict(flow.state.variables), list(flow.state.arguments)
        flow.state.effort.spend(len(variables))
        left = _turn(flow, partial(flow.either, status.opens, turn, Status, text))
        after()
        same = variables == flow.state.variables and arguments == flow.state.arguments
        if left or status.assumed or same:
            return Status(True)


def _turn(flow: Flow, act: Callable[[], object]) -> bool:
    """One turn of a loop; whether it was the last."""
    try:
        act()
    except Leaves as left:
        if left.how not in ("break", "continue"):
            raise
        if left.levels > 1:
            raise Leaves(left.how, left.levels - 1) from left
        return left.how == "break"
    return False


def _for(flow: Flow, node: Any, here: Here) -> Status:
    variable, values = fields(node, "variable"), fields(node, "value")
    body = fields(node, "body")
    if not variable:
        return Status(True)
    name = here.tree.text(variable[0])
    expander = flow.expander(here)
    words: list[Word] = []
    if child(node, "in") is None:
        words = list(flow.state.arguments)
    elif values:
        start, end = here.tree.span(values[0])[0], here.tree.span(values[-1])[1]
        for raw in expander.reader.several(start, end):
            words.extend(expander.words(raw))
    if node.children[0].type == "select":
        words = words[:1]
    for word in words:
        flow.state.effort.spend(STEP)
        flow.state.assign(name, word)
        if _turn(flow, lambda: flow.block(body, here)):
            break
    if expander.dropped:
        flow.rest(_text(body, here), tuple(expander.dropped))
    return Status(True)


def _counted(flow: Flow, node: Any, here: Here) -> Status:
    """``for ((a; b; c))``."""
    opening, closing = child(node, "(("), child(node, "))")
    text = here.source.text
    start, end = here.tree.span(opening)[1], here.tree.span(closing)[0]
    cuts = [start - 1, *(at for at in range(start, end) if text[at] == ";"), end]
    spans = [(a + 1, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    if len(spans) != 3:
        raise here.source.error(start, "this loop could not be read.")

    def calculated(span: tuple[int, int]) -> Status:
        if not text[slice(*span)].strip():
            return Status(True)
        return arithmetic(flow, here, *span)

    calculated(spans[0])
    body = fields(node, "body")
    return repeated(
        flow,
        lambda: calculated(spans[1]),
        body,
        here,
        after=lambda: calculated(spans[2]),
    )


def arithmetic(flow: Flow, here: Here, start: int, end: int) -> Status:
    """``((…))``: success where it is not zero."""
    expander = flow.expander(here, asks=True)
    try:
        value, opens = expander.number(start, end)
    except UnknownError:
        return conditions.unknown(f"(({here.source.text[start:end]}))", expander, start)
    return Status(value != 0, opens)


def _compound(flow: Flow, node: Any, here: Here) -> Status:
    start, end = here.tree.span(node)
    if here.source.text.startswith("((", start):
        return arithmetic(flow, here, start + 2, end - 2)
    return flow.block(statements(node), here)


def _test(flow: Flow, node: Any, here: Here) -> Status:
    start, end = here.tree.span(node)
    if here.source.text.startswith("[[", start):
        expander = flow.expander(here, asks=True)
        return conditions.double(start + 2, end - 2, expander, flow.files)
    if here.source.text.startswith("((", start):
        return arithmetic(flow, here, start + 2, end - 2)
    return flow.simple(here, start, end)


def _case(flow: Flow, node: Any, here: Here) -> Status:
    expander = flow.expander(here, asks=True)
    value = fields(node, "value")
    if not value:
        return Status(True)
    start, end = here.tree.span(value[0])
    subject = expander.text(Raw(start, end, expander.reader.all(start, end, "word").parts))
    items = [one for one in node.children if one.type == "case_item"]
    opens = subject.opens
    if not subject.known:
        opens = conditions.unknown(f"case {here.tree.text(value[0])}", expander, start).opens
    chosen: list[Any] = []
    skipped: list[Any] = []
    looks = True
    falls = False
    for item in items:
        at, close = here.tree.span(item)
        values = {one.id for one in fields(item, "value")}
        body = [one for one in statements(item) if one.id not in values]
        at = expander.reader.blank(at, close, lines=True)
        at += here.source.text.startswith("(", at)
        hit, falls = falls, False
        while at < close and looks:
            raw = expander.reader.word(expander.reader.blank(at, close), close)
            try:
                pattern = expander.pattern(raw)
            except UnknownError as error:
                opens = (*opens, *error.opens)
                pattern = (patterns.Token("\0"),)
            cost = (len(pattern) + 1) * (len(subject.text) + 1)
            flow.state.effort.spend(cost)
            anything = pattern == (patterns.STAR,)
            hit = hit or anything or (subject.known and patterns.matches(pattern, subject.text))
            at = expander.reader.blank(raw.end, close)
            if not here.source.text.startswith("|", at):
                break
            at += 1
        if not hit:
            skipped.extend(body)
            continue
        chosen.extend(body)
        ends = {one.type for one in item.children}
        looks, falls = ";;&" in ends, ";&" in ends
    known = tuple(one for one in opens if one.default is not None)
    return flow.either(
        known,
        lambda: flow.block(chosen, here),
        lambda: Status(True),
        partial(_text, skipped, here),
    )


def _function(flow: Flow, node: Any, here: Here) -> Status:
    name, body = fields(node, "name"), fields(node, "body")
    if name and body:
        flow.state.functions[here.tree.text(name[0])] = (here, body[0])
    return Status(True)


def _subshell(flow: Flow, node: Any, here: Here) -> Status:
    return flow.inside(lambda: flow.block(statements(node), here))


def _redirected(flow: Flow, node: Any, here: Here) -> Status:
    body = fields(node, "body")
    redirects = fields(node, "redirect")
    heredocs = [one for one in redirects if one.type == "heredoc_redirect"]
    documents = [_document(flow, one, here) for one in heredocs]
    start, end = here.tree.span(node)
    if heredocs:
        opened = child(heredocs[-1], "heredoc_start") or heredocs[-1]
        line = here.source.text.find("\n", here.tree.span(opened)[1])
        end = line if line >= 0 else end
    if not body or body[0].type in SIMPLE:
        status = flow.simple(here, start, end, documents)
    else:
        before = flow.piped
        flow.piped = documents[0] if documents else before
        status = flow.statement(body[0], here)
        flow.piped = before
    for one in heredocs:
        rest = child(one, "pipeline")
        if rest is not None:
            before = flow.piped
            flow.piped = flow.printed
            status = piped(flow, statements(rest), here)
            flow.piped = before
        operators = [each.type for each in fields(one, "operator")]
        for operator, right in zip(operators, fields(one, "right"), strict=False):
            status = joined(flow, status, operator, right, here)
    return status


def _document(flow: Flow, node: Any, here: Here) -> Word:
    """What a here-document gives to read."""
    opened, body = child(node, "heredoc_start"), child(node, "heredoc_body")
    if opened is None or body is None:
        return Word("")
    start, end = here.tree.span(body)
    quoted = any(one in here.tree.text(opened) for one in "'\"\\")
    expander = flow.expander(here)
    before = flow.state.copied()
    word = expander.document(start, end, quoted)
    flow.state.restore(before)  # bash expands it in the process that reads it
    flow.state.note(expander.dropped)
    return expander.without_tabs(word) if node.children[0].type == "<<-" else word


def _error(flow: Flow, node: Any, here: Here) -> Status:
    known = [one for one in statements(node) if one.type in ACTS or one.type in SIMPLE]
    return flow.block(known, here)


ACTS: dict[str, Callable[[Flow, Any, Here], Status]] = {
    "program": lambda flow, node, here: flow.block(statements(node), here),
    "ERROR": _error,
    "if_statement": _if,
    "list": _list,
    "pipeline": _pipeline,
    "negated_command": _negated,
    "while_statement": _loop,
    "until_statement": _loop,
    "for_statement": _for,
    "c_style_for_statement": _counted,
    "do_group": lambda flow, node, here: flow.block(statements(node), here),
    "compound_statement": _compound,
    "test_command": _test,
    "case_statement": _case,
    "function_definition": _function,
    "subshell": _subshell,
    "redirected_statement": _redirected,
}

