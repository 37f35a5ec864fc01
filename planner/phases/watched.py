"""A scene that is seen to be read: what a sweep over choices makes its combinations of.

Its parts read like those of any scene, and note in its memory what is read of them, where that
differs between combinations.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, cast

from planner.phases.memory import Memory, Name, Past, Same, Watched, token
from planner.phases.role import Role
from planner.phases.scene import Scene, role_of
from planner.plan.facts import Facts
from planner.setup.quantities import Quantities, quantities
from planner.setup.setup import Setup, models_of
from planner.values.model_setup import ModelSetup


class WatchedPlan:
    """Reads like a plan, or a sweep's grid; fields that vary are noted."""

    __slots__ = ("_memory", "_plan", "_varying")

    def __init__(self, plan: Any, varying: Collection[str], memory: Memory) -> None:
        self._plan, self._varying, self._memory = plan, varying, memory

    def __getattr__(self, field: str) -> Any:
        if field in self._varying:
            self._memory.note(("plan", field))
        return getattr(self._plan, field)


class Begun:
    """One combination of a sweep as far as all that its scene is made of."""

    def __init__(self, plan: Any, seen: WatchedPlan, facts: Facts, memory: Memory) -> None:
        self.plan, self.seen, self.facts, self.memory = plan, seen, facts, memory
        self.q: Quantities
        self.models: tuple[ModelSetup, ...]
        self.roles: Mapping[str, Role]

    def make(self) -> None:
        """Its numbers, models and roles."""
        memory, seen = self.memory, cast("Any", self.seen)
        self.q = memory.ask((quantities,), lambda: quantities(seen))
        self.models = memory.ask((models_of,), lambda: models_of(seen))
        known = watched_facts(self.facts, memory, OF_FACTS)
        watched = [Watched(one, memory, "model", one.role) for one in self.models]
        self.roles = {
            one.role: memory.ask((role_of, one.role), partial(role_of, seen, known, model))
            for one, model in zip(self.models, cast("list[Any]", watched), strict=True)
        }

    def read(self, name: Name) -> Hashable:
        """What the value of a name has in common with others' (:func:`token`)."""
        source, *parts = name
        if source == "plan":
            return token(getattr(self.plan, parts[0]))
        if source == "role":
            return Same(self.roles.get(parts[0]))
        if source == "models":
            return tuple(model.role for model in self.models)
        of: Any = {"facts": self.facts, "gpu": self.facts.gpu}.get(source)
        if source == "q":
            of = self.q
        elif source == "model":
            role, *parts = parts
            # Other combinations may have had a model that this one has not.
            of = next((model for model in self.models if model.role == role), None)
        return token(getattr(of, parts[0], None) if parts else of)


OF_FACTS = {field.name for field in fields(Facts)} - {"gpu"}
Varying = Mapping[str, Container[str]]
"""Parts that differ between combinations, by what they are parts of."""


def varying_parts(begun: Sequence[Begun]) -> Varying:
    """Which parts of what scenes are made of differ between the combinations of a sweep."""
    found: dict[str, Container[str]] = {
        "q": _differing([one.q for one in begun]),
        "facts": _differing([one.facts for one in begun]) & OF_FACTS,
        "gpu": _differing([one.facts.gpu for one in begun]),
    }
    names = {tuple(one.roles) for one in begun}
    found["models"] = {"models"} if len(names) > 1 else ()
    every = set().union(*names)
    for role in every:
        models = [model for one in begun for model in one.models if model.role == role]
        found[f"model {role}"] = _differing(models)
    roles = {role: {id(one.roles.get(role)) for one in begun} for role in every}
    found["role"] = {role for role, different in roles.items() if len(different) > 1}
    return found


def _differing(objects: Sequence[Any]) -> set[str]:
    """The fields in which some of the objects differ."""
    different = list({id(one): one for one in objects}.values())
    return {
        field.name
        for field in fields(different[0])
        if len({token(getattr(one, field.name)) for one in different}) > 1
    }


def watched_facts(
    facts: Facts, memory: Memory, varying: Container[str], of_gpu: Container[str] | None = None
) -> Any:
    """Reads like the catalog's rows behind a plan; of its card each part is noted by itself."""
    gpu: Any = Watched(facts.gpu, memory, "gpu", varying=of_gpu)
    return Watched(replace(facts, gpu=gpu), memory, "facts", varying=varying)


class WatchedModels(tuple[Any, ...]):
    """All models of a combination, the policy first; which others there are is noted."""

    memory: Memory | None = None
    """Where that is noted; None where all combinations have the same."""

    def __iter__(self) -> Iterator[Any]:
        if self.memory is not None:
            self.memory.note(("models",))
        return super().__iter__()


class WatchedRoles(Mapping[str, Role]):
    """Reads like the roles by name."""

    __slots__ = ("_memory", "_roles", "_vary", "_varying")

    def __init__(
        self, roles: Mapping[str, Role], memory: Memory, varying: Container[str], vary: bool
    ) -> None:
        self._roles, self._memory, self._varying, self._vary = roles, memory, varying, vary

    def __getitem__(self, role: str) -> Role:
        # A role that is not there is one that other combinations have.
        if role in self._varying:
            self._memory.note(("role", role))
        return self._roles[role]

    def __iter__(self) -> Iterator[str]:
        if self._vary:
            self._memory.note(("models",))
        return iter(self._roles)

    def __len__(self) -> int:
        if self._vary:
            self._memory.note(("models",))
        return len(self._roles)


def begin(plan: Any, varying: Collection[str], facts: Facts, past: Past) -> Begun:
    """A combination that shares a ``past`` with the others of its sweep.

    ``varying`` are the fields in which combinations differ; all others have one value, or one
    array, in the whole sweep.
    """
    memory = Memory(past)
    begun = Begun(plan, WatchedPlan(plan, varying, memory), facts, memory)
    memory.values.read = begun.read
    return begun


def watched_scene(begun: Begun, varying: Varying) -> Scene:
    """The scene of a combination, which notes what is read of it that varies."""
    memory, vary = begun.memory, bool(varying["models"])
    models = WatchedModels(
        Watched(one, memory, "model", one.role, varying=varying[f"model {one.role}"])
        for one in begun.models
    )
    models.memory = memory if vary else None
    q: Any = Watched(begun.q, memory, "q", varying=varying["q"])
    return Scene(
        setup=Setup(plan=cast("Any", begun.seen), q=q, models=models),
        facts=watched_facts(begun.facts, memory, varying["facts"], varying["gpu"]),
        roles=WatchedRoles(begun.roles, memory, varying["role"], vary),
        memory=memory,
    )
