"""Loops: ``for``, ``while``, ``until``, ``select``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from planner.importer.given import Word
from planner.importer.shell.builtins import Leaves
from planner.importer.shell.conditions import Status, arithmetic
from planner.importer.shell.flow import STEP, Flow, Here, written
from planner.importer.shell.tree import child, fields, statements


def follow_while(flow: Flow, node: Any, here: Here) -> Status:
    """``while`` and ``until``."""
    until = node.children[0].type == "until"
    body = fields(node, "body")
    condition = [one for one in statements(node) if one.id != (body[0].id if body else None)]
    return _repeated(flow, lambda: flow.block(condition, here), body, here, until)


def _repeated(
    flow: Flow,
    condition: Callable[[], Status],
    body: Sequence[Any],
    here: Here,
    until: bool = False,
    after: Callable[[], object] = lambda: None,
) -> Status:
    """A loop: once where its condition is open, and up to where a turn changes nothing more."""
    text = partial(written, body, here)

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


def follow_for(flow: Flow, node: Any, here: Here) -> Status:
    """``for x in …``, and ``select``, which takes its first word."""
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
        flow.rest(written(body, here), tuple(expander.dropped))
    return Status(True)


def follow_counted(flow: Flow, node: Any, here: Here) -> Status:
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
        return arithmetic(*span, flow.expander(here, asks=True))

    calculated(spans[0])
    body = fields(node, "body")
    return _repeated(
        flow,
        lambda: calculated(spans[1]),
        body,
        here,
        after=lambda: calculated(spans[2]),
    )
