"""What a wish leaves free: options that belong together, and arrays of sizes.

An option is a few fields set together (adapters bring their dtypes, sharding its group and what it
offloads). Categories are combined option by option; sizes of
:data:`planner.setup.quantities.VECTOR_FIELDS` are arrays within each combination. What no plan
can be is left to the plan's own rules, what a framework has no words for to its exporter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.launch.export import exporter_of
from planner.launch.launch import Obstacle
from planner.plan import Plan, try_plan
from planner.plan.altered import altered
from planner.plan.rules import rules_of, untrained
from planner.sweeps.grid import followed

Option = Mapping[str, Any]
Options = tuple[Option, ...]
Sizes = Mapping[str, tuple[Any, ...]]

MENDS = 4
"""Rounds of changes that a framework's script asks for: one can uncover the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Blocks of options, the arrays in each combination, and what was left out of both.

    ``plan`` is the person's with its free sizes at their least: every option is a change to it.
    ``scenario`` are the arrays that say which run it is (how many GPUs, how long), the others how
    it is laid out. Each of ``trainer_sizes`` is a mesh of its own: rows by number, or a budget of
    tokens. ``framework`` is whose script has to say a plan; empty where it cannot say this one.
    """

    plan: Plan
    machines: Options
    trainer: tuple[Options, ...]
    engine: tuple[Options, ...]
    scenario: Sizes
    trainer_sizes: tuple[Sizes, ...]
    engine_sizes: Sizes
    framework: str
    keep: tuple[str, ...]
    left_out: tuple[str, ...]

    def each(
        self, combinations: Sequence[Option], machine: Option
    ) -> list[tuple[dict[str, Any], Option]]:
        """The combinations that are plans and that the framework's script can say, each once.

        Beside each stands what was asked for, with every field that its options name.
        """
        found: dict[tuple[tuple[str, Any], ...], tuple[dict[str, Any], Option]] = {}
        for asked in combinations:
            changes = self.said(self.different(asked), machine)
            if changes is not None:
                found.setdefault(tuple(sorted(changes.items())), (changes, asked))
        return [pair for pair in found.values() if possible(self.plan, pair[0])]

    def allowed(self, combinations: Sequence[Option], machine: Option) -> list[dict[str, Any]]:
        """The same without what was asked for."""
        return [changes for changes, _ in self.each(combinations, machine)]

    def said(self, changes: dict[str, Any], machine: Option) -> dict[str, Any] | None:
        """The changes with those that the framework's script asks for; None where it has no words.

        What a person set and what machine it is stay.
        """
        for _ in range(MENDS):
            found = self._obstacles(changes)
            if not found:
                return changes
            asked = {name: value for one in found for name, value in one.changes}
            if not asked or any(name in machine or name in self.keep for name in asked):
                return None
            changes = self.different({**changes, **asked})
        return None

    def _obstacles(self, changes: Option) -> tuple[Obstacle, ...]:
        if not self.framework:
            return ()
        return exporter_of(self.framework).obstacles(altered(self.plan, changes))

    @property
    def fields(self) -> frozenset[str]:
        """The fields of all options and of the scenario; sizes are arrays beside them."""
        blocks = (self.machines, *self.trainer, *self.engine)
        return frozenset(
            (*(name for block in blocks for option in block for name in option), *self.scenario)
        )

    @property
    def engine_fields(self) -> frozenset[str]:
        """The fields of the engine's options."""
        return frozenset(name for options in self.engine for option in options for name in option)

    def made(self, changes: Option) -> Plan | None:
        """The plan that was judged: with the sizes that move along; None where it is none."""
        return try_plan({**self.plan.model_dump(), **followed(self.plan, changes)})[0]

    def has(self, name: str, value: int) -> bool:
        """Whether some layout has this value of a size, and the framework's script can say it.

        The plan's other free sizes are at their least.
        """
        if any(one.field == name for one in self._obstacles({name: value})):
            return False
        spread = next((block for block in self.trainer if "sharding" in block[0]), ({},))
        return any(self.made({**option, name: value}) is not None for option in spread)

    def different(self, changes: Option) -> dict[str, Any]:
        """The changes without those that change nothing."""
        return {name: value for name, value in changes.items() if getattr(self.plan, name) != value}


def possible(plan: Plan, changes: Option) -> bool:
    """Whether the plan's rules allow these changes; which model and card they are is not asked."""
    changed = altered(plan, changes)
    return not untrained(changed) and not any(rule.broken(changed) for rule in rules_of(changed))


def merged(options: Sequence[Option]) -> dict[str, Any]:
    """The fields of all these options; a later one wins."""
    return {name: value for option in options for name, value in option.items()}
