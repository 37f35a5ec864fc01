"""Control flow of a script: which statements bash would come to, by what the text says.

A condition on what comes from outside is taken as it is where nobody gave anything, and whatever
is said under it rests on that. Where this would end the script before it started a program, as
after "usage: …", the other branch is taken: whoever has the script runs it as it wants to be run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from planner.importer.given import Launch, Open, Place, Word
from planner.importer.shell.builtins import Leaves
from planner.importer.shell.conditions import Status
from planner.importer.shell.expansion import Expander
from planner.importer.shell.source import Source
from planner.importer.shell.tree import SIMPLE, Tree, assigned
from planner.importer.shell.variables import State, Variable, resting

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

    acts: ClassVar[Mapping[str, Act]]
    """What is done for a statement, by its kind in the tree."""

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
            act = self.acts.get(node.type)
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


Act = Callable[[Flow, Any, Here], Status]


def written(nodes: Sequence[Any], here: Here) -> str:
    """What is written of these statements."""
    return " ".join(here.tree.text(node) for node in nodes)
