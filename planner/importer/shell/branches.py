"""Statements that branch: ``if``, ``case``, ``&&`` and ``||``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from planner.importer.shell import conditions, patterns
from planner.importer.shell.conditions import Status
from planner.importer.shell.evaluation import UnknownError
from planner.importer.shell.flow import MOST_STATEMENTS_DEEP, Flow, Here, written
from planner.importer.shell.parts import Raw
from planner.importer.shell.tree import fields, statements


def follow_if(flow: Flow, node: Any, here: Here) -> Status:
    """``if … elif … else``, where a condition that is open takes both branches into account."""
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
            return written([*rest, *otherwise], here)

        if status.success:
            return flow.either(status.opens, first, second, behind)
        return flow.either(status.opens, second, first, partial(written, body, here))

    return choose(0)


def _split(node: Any, *words: str) -> list[list[Any]]:
    """Statements of a node, cut at these keywords."""
    found: list[list[Any]] = [[]]
    for one in node.children:
        if one.type in words:
            found.append([])
        elif one.is_named and one.type != "comment":
            found[-1].append(one)
    return found


def follow_list(flow: Flow, node: Any, here: Here) -> Status:
    """Commands joined by ``&&`` and ``||``."""
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


def follow_negated(flow: Flow, node: Any, here: Here) -> Status:
    """``! command``."""
    status = flow.block(statements(node), here)
    return replace(status, success=not status.success)


def follow_case(flow: Flow, node: Any, here: Here) -> Status:
    """``case … in``: the items whose patterns match, by what the text says of the value."""
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
        partial(written, skipped, here),
    )
