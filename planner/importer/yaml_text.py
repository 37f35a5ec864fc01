"""YAML, read as data with the places of its values: no tags, no objects, no bombs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.importer.edited import ENTRY
from planner.importer.given import Document, Given, Place, UnreadableError, bounded

MOST_CHARACTERS = 400_000
MOST_VALUES = 20_000
"""Values of a file, those that aliases repeat counted each time."""
MOST_DEPTH = 30


def read_yaml(text: str, name: str) -> Document:
    """Settings of a YAML file, nested mappings by names with dots, lists as values.

    Of two entries of one name the last stands, as for the frameworks' own loaders.

    Raises:
        UnreadableError: no YAML, a tag, an alias into itself, or over a bound.
    """
    import yaml

    bounded(text, name, MOST_CHARACTERS)
    text = text.replace("\r\n", "\n")
    for at, one in enumerate(text):
        if one < " " and one not in "\n\t" or "\x7f" <= one < "\xa0" and one != "\x85":
            line = text.count("\n", 0, at) + 1
            raise UnreadableError(name, line, "a character here is not allowed in YAML.")
    loader = yaml.SafeLoader(text)
    try:
        _events(text, name)
        root = loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or "it is nested too deeply"
        line = mark.line + 1 if mark else 1
        raise UnreadableError(name, line, f"this is no YAML: {why}.") from error
    finally:
        loader.dispose()
    if root is None:
        return Document((), {"": _end(text, name, len(text.rstrip("\n")), 0)})
    if not isinstance(root, yaml.MappingNode):
        raise UnreadableError(name, 1, "settings are a mapping; this is a single value or a list.")
    return _Reader(text, name).document(root)


def _events(text: str, name: str) -> None:
    """Refuse what composing or repeating would take long for, before it is done."""
    import yaml

    depth = 0
    for count, event in enumerate(yaml.parse(text, yaml.SafeLoader)):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise UnreadableError(name, line, f"more than {MOST_DEPTH} levels are not read.")
        if count > 3 * MOST_VALUES:
            raise UnreadableError(name, line, f"more than {MOST_VALUES:,} values are not read.")
        tag = getattr(event, "tag", None)
        if tag is not None and tag.removeprefix("tag:yaml.org,2002:") not in PLAIN:
            raise UnreadableError(name, line, f"the tag {tag[:60]} is not read. Write a value.")


PLAIN = frozenset(("str", "int", "float", "bool", "null", "map", "seq"))


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        import yaml

        self.text, self.name = text, name
        self.constructor = yaml.SafeLoader("")
        self.count = 0
        self.givens: dict[str, Given] = {}
        self.ends: dict[str, Place] = {}
        self.open: set[int] = set()

    def document(self, root: Any) -> Document:
        self.mapping(root, "")
        return Document(tuple(self.givens.values()), self.ends)

    def counted(self, node: Any) -> None:
        self.count += 1
        line = node.start_mark.line + 1
        if self.count > MOST_VALUES:
            raise UnreadableError(
                self.name, line, f"aliases make more than {MOST_VALUES:,} values. Write them out."
            )
        if id(node) in self.open:
            raise UnreadableError(self.name, line, "an alias stands inside of what it repeats.")

    def mapping(self, node: Any, prefix: str) -> None:
        self.counted(node)
        self.open.add(id(node))
        self.ends[prefix.rstrip(".")] = self.end(node)
        for key, value in self.pairs(node):
            name = f"{prefix}{key}"
            if value.id == "mapping" and value.value:
                self.mapping(value, f"{name}.")
                continue
            given = Given(name, self.value(value), self.place(value))
            self.givens.pop(name, None)
            self.givens[name] = given
        self.open.discard(id(node))

    def pairs(self, node: Any) -> Iterator[tuple[str, Any]]:
        """Keys and values; what ``<<`` brings in comes before what stands there itself."""
        merged: list[Any] = []
        own: list[tuple[str, Any]] = []
        for key, value in node.value:
            self.counted(key)
            if key.id != "scalar":
                line = key.start_mark.line + 1
                raise UnreadableError(self.name, line, "a key is no single word.")
            if key.tag == "tag:yaml.org,2002:merge":
                merged.extend(value.value if value.id == "sequence" else [value])
            else:
                own.append((key.value, value))
        for one in reversed(merged):
            if one.id == "mapping":
                self.counted(one)
                self.open.add(id(one))
                yield from self.pairs(one)
                self.open.discard(id(one))
        yield from own

    def value(self, node: Any) -> Any:
        self.counted(node)
        self.open.add(id(node))
        try:
            if node.id == "sequence":
                return [self.value(one) for one in node.value]
            if node.id == "mapping":
                return {key: self.value(value) for key, value in self.pairs(node)}
            return self.scalar(node)
        finally:
            self.open.discard(id(node))

    def scalar(self, node: Any) -> Any:
        """A single value, as the safe loader makes it; a date stays the text that it is."""
        import yaml

        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        try:
            if len(node.value) > 1_000 and node.tag == "tag:yaml.org,2002:int":
                raise ValueError
            return self.constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            line = node.start_mark.line + 1
            raise UnreadableError(self.name, line, f"{node.value[:40]} is no value.") from error

    def place(self, node: Any) -> Place:
        start, end = node.start_mark.index, node.end_mark.index
        style = getattr(node, "style", None)
        written = self.text[start:end]
        if style in ("|", ">") or not isinstance(node.value, str):
            end = start + len(written.rstrip())
        form = f"yaml{style}" if style in ("'", '"') else "yaml" if end > start else "yaml nothing"
        return Place(self.name, node.start_mark.line + 1, start, end, (form,))

    def end(self, node: Any) -> Place:
        """Behind a mapping's last entry: in its braces, or on the line after."""
        if node.flow_style:
            last = node.value[-1][1].end_mark.index if node.value else node.start_mark.index + 1
            line = self.text.count("\n", 0, last) + 1
            return Place(self.name, line, last, last, ("yaml flow",))
        if not node.value:
            return _end(self.text, self.name, node.start_mark.index, node.start_mark.column)
        key, value = node.value[-1]
        last = max(key.end_mark.index, self._last(value))
        stop = self.text.find("\n", last)
        column = node.value[0][0].start_mark.column
        return _end(self.text, self.name, stop if stop >= 0 else len(self.text), column)

    def _last(self, node: Any) -> int:
        """Where the last character of a value stands, comments behind it aside."""
        for _ in range(MOST_DEPTH):
            if isinstance(node.value, str) or not node.value or node.flow_style:
                break
            last = node.value[-1]
            node = last[1] if isinstance(last, tuple) else last
        start, end = node.start_mark.index, node.end_mark.index
        return int(start + len(self.text[start:end].rstrip()))


def _end(text: str, name: str, at: int, column: int) -> Place:
    return Place(name, text.count("\n", 0, at) + 1, at, at, (f"{ENTRY}{column}",))
