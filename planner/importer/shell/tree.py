"""A shell text's tree of statements, by tree-sitter, with positions in characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from planner.importer.effort import Effort
from planner.importer.given import Place
from planner.importer.shell.mask import masked
from planner.importer.shell.source import Source

SIMPLE = frozenset(
    (
        *("command", "variable_assignment", "variable_assignments"),
        *("declaration_command", "unset_command"),
    )
)


class Tree:
    """The tree of one source; a node is tree-sitter's own."""

    def __init__(self, source: Source, effort: Effort) -> None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        self.source = source
        data = masked(source, effort).encode("ascii")
        self.root = Parser(Language(tree_sitter_bash.language())).parse(data).root_node

    def span(self, node: Any) -> tuple[int, int]:
        """First character of a node, and the one after its last."""
        return node.start_byte, node.end_byte

    def unread(self) -> Iterator[Place]:
        """Where the grammar gave up; simple commands are read again from their text."""
        waiting = [self.root] if self.root.has_error else []
        while waiting:
            node = waiting.pop()
            if node.type == "ERROR" or node.is_missing:
                place = self.source.place(*self.span(node))
                if place:
                    yield place
            elif node.has_error and node.type not in SIMPLE:
                waiting.extend(reversed(node.children))

    def text(self, node: Any) -> str:
        """What is written there."""
        start, end = self.span(node)
        return self.source.text[start:end]


def statements(node: Any) -> list[Any]:
    """The statements directly in a node: its named children that are no comments."""
    return [one for one in node.children if one.is_named and one.type != "comment"]


def fields(node: Any, name: str) -> list[Any]:
    """Children under a field's name."""
    return list(node.children_by_field_name(name))


def child(node: Any, kind: str) -> Any:
    """The first child of a type, or None."""
    return next((one for one in node.children if one.type == kind), None)


ASSIGNS = re.compile(r"(?:^|[\s;(])([A-Za-z_]\w*)(?:\[[^]\n]*\])?\+?=")


def assigned(text: str) -> set[str]:
    """Names that a text assigns, wherever in it."""
    return set(ASSIGNS.findall(text))
