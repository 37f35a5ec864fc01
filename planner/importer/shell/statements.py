"""What bash does for each kind of statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from planner.importer.given import Word
from planner.importer.shell import branches, loops
from planner.importer.shell.conditions import Status, arithmetic
from planner.importer.shell.double_brackets import double
from planner.importer.shell.flow import Act, Flow, Here
from planner.importer.shell.tree import SIMPLE, child, fields, statements


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


def _compound(flow: Flow, node: Any, here: Here) -> Status:
    start, end = here.tree.span(node)
    if here.source.text.startswith("((", start):
        return arithmetic(start + 2, end - 2, flow.expander(here, asks=True))
    return flow.block(statements(node), here)


def _test(flow: Flow, node: Any, here: Here) -> Status:
    start, end = here.tree.span(node)
    if here.source.text.startswith("[[", start):
        expander = flow.expander(here, asks=True)
        return double(start + 2, end - 2, expander, flow.files)
    if here.source.text.startswith("((", start):
        return arithmetic(start + 2, end - 2, flow.expander(here, asks=True))
    return flow.simple(here, start, end)


def _function(flow: Flow, node: Any, here: Here) -> Status:
    name, body = fields(node, "name"), fields(node, "body")
    if name and body:
        flow.state.functions[here.tree.text(name[0])] = (here, body[0])
    return Status(True)


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
            status = branches.joined(flow, status, operator, right, here)
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
    return flow.block(
        [one for one in statements(node) if one.type in flow.acts or one.type in SIMPLE], here
    )


ACTS: Mapping[str, Act] = {
    "program": lambda flow, node, here: flow.block(statements(node), here),
    "ERROR": _error,
    "if_statement": branches.follow_if,
    "list": branches.follow_list,
    "pipeline": lambda flow, node, here: piped(flow, statements(node), here),
    "negated_command": branches.follow_negated,
    "while_statement": loops.follow_while,
    "until_statement": loops.follow_while,
    "for_statement": loops.follow_for,
    "c_style_for_statement": loops.follow_counted,
    "do_group": lambda flow, node, here: flow.block(statements(node), here),
    "compound_statement": _compound,
    "test_command": _test,
    "case_statement": branches.follow_case,
    "function_definition": _function,
    "subshell": lambda flow, node, here: flow.inside(
        lambda: flow.block(statements(node), here)
    ),
    "redirected_statement": _redirected,
}
