"""What a method is: one value that rules, defaults, pages, estimates and steps read.

Everything here names a fact of the method; what a method *does* stands in the modules of its
folder (``memory.py``, ``step.py``), which are loaded when they are asked for. Imports nothing of a
plan, since a plan is built from its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict

from planner.problem import Problem
from planner.rule import NoEffect, Rule
from planner.values.field import row_of
from planner.values.model_setup import ModelSetup
from planner.values.step_phases import StepPhase

Switch = tuple[str, str, Mapping[str, Any], Mapping[str, Any]]
"""What on and off are called, and the fields they set."""

OwnEdit = tuple[Literal["memory", "training"], str, Mapping[str, Any]]
"""What it touches (:mod:`planner.advice.edits`), its title, and the fields it sets."""
OwnForm = tuple[str, str, Any, Any]
"""An optimization: its name, its field, the value that is off, and the usual one that is on."""

Objective = Literal["cross-entropy", "policy"]
"""What meets the vocabulary: every position of a row, or the log-probs of response tokens."""

ENGINES = ("vllm-colocated", "hf", "vllm-separate")
"""What can generate the responses of a method that scores them afterwards."""

NOTHING_GENERATED = ("none",)

POLICY, REFERENCE, CRITIC, REWARD_MODEL = "policy", "reference", "critic", "reward model"


class OwnFields(BaseModel):
    """Base of a method's own fields; a plan has them under the same flat names."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of(cls, plan: Any) -> Self:
        """A plan or grid, read as having these fields: every plan has every method's."""
        return cast("Self", plan)


@cache
def _in_place_of(shared: str, fields: type[OwnFields] | None) -> str:
    """The one of these fields that stands in place of a shared one; itself where none does."""
    for name, info in fields.model_fields.items() if fields else ():
        if row_of(info).in_place_of == shared:
            return name
    return shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A published variation of a method: another objective over the same step."""

    title: str
    """What people call it."""
    label: str
    """The title and a few words more, for lists of choices."""
    defaults: Mapping[str, Any]
    """What nobody set in a plan of it, besides the method's own."""
    memory: str
    """What of it changes memory or time and what does not, for a person."""
    left_out: str = ""
    """What of it no setting of a trainer makes: who runs a script of it has to do that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to post-train; its folder's ``__init__`` holds it as ``METHOD``."""

    name: str
    """Its value of the field ``method``, and its folder's name but for what no module may have."""
    title: str
    """What people call it."""
    label: str
    """The title and a few words more, for lists of choices."""
    order: int
    """Its place in such lists; a plan that names no method has the first."""
    spellings: tuple[str, ...] = ()
    """Other ways to write its name."""

    roles: tuple[str, ...]
    """Models that its plans may have, in the order in which they are built."""
    phases: tuple[StepPhase, ...]
    """Phases that its plans may have, in the order of a step."""

    objective: Objective = "policy"
    rollouts: tuple[str, ...] = ENGINES
    """Values of ``rollout`` that it can be planned with, the usual one first."""
    texts_per_response: int = 1
    """Rows of the batch that one response of the plan stands for: 2 where it is a pair."""
    least_responses: int = 1
    """Responses of one prompt that its advantages need."""
    most_responses: int | None = None
    """Responses of one prompt that it can use; None without a limit."""
    critics: tuple[str, ...] = ("none",)
    """Values of ``critic`` that it can be planned with, the usual one first."""
    held_to_reference: bool = False
    """Whether the loss compares with a reference whether or not it has a KL term."""
    embeds_outside_forward: bool = False
    """Whether its step multiplies the embedding itself, outside of the model's forward."""
    autocasts_adapters: Callable[[Any], bool] = lambda plan: False
    """Whether the trained model's forward runs under autocast beside fp32 adapters."""
    second_head_pass: Callable[[Any], bool] = lambda plan: False
    """Whether the loss meets the vocabulary in pieces a second time, with gradient."""
    extra_models: Callable[[Any], tuple[ModelSetup, ...]] = lambda plan: ()
    """Models of a plan besides policy, reference, critic and reward model."""

    fields: type[OwnFields] | None = None
    """Its own fields."""
    refused_elsewhere: tuple[str, ...] = ()
    """Own fields that no other method's plan may set; others have no effect there."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What nobody set in a plan of it."""
    variations: Mapping[str, Variation] = field(default_factory=dict)
    """Published variations of it, by their values of the field ``variation``."""
    switches: tuple[Switch, ...] = ()
    """What of its own can be turned on or off to see what it changes."""
    forms: tuple[OwnForm, ...] = ()
    """The same where a field of its own has more than two values."""
    edits: tuple[OwnEdit, ...] = ()
    """What advice can set among its own fields."""
    searched: tuple[str, ...] = ()
    """Own fields that a search may set to any of their values: they change no result."""
    trade_offs: Mapping[str, str] = field(default_factory=dict)
    """What the result of training may lose by another value of an own field."""
    rules: tuple[Rule, ...] = ()
    """What cannot be, in a plan of it."""
    fact_problems: Callable[[Any, Any], Iterable[Problem]] = lambda plan, facts: ()
    """What cannot be with these models (:class:`planner.plan.facts.Facts`), in a plan that
    breaks no rule."""
    without_effect: tuple[NoEffect, ...] = ()
    """Fields that change nothing in a plan of it."""

    @property
    def rewarded(self) -> bool:
        """Whether a reward rule, model or service scores responses."""
        return REWARD_MODEL in self.roles

    @property
    def generates(self) -> bool:
        """Whether responses are generated in its step."""
        return self.rollouts != NOTHING_GENERATED

    @property
    def engines(self) -> bool:
        """Whether an engine of the plan's choice generates them."""
        return set(self.rollouts) <= set(ENGINES)

    @property
    def kl_field(self) -> str:
        """The field that says where its KL term enters."""
        return _in_place_of("kl", self.fields)

    @property
    def own_fields(self) -> tuple[str, ...]:
        """Names of its own fields."""
        return tuple(self.fields.model_fields) if self.fields else ()
