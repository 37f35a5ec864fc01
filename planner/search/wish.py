"""What a person asks a search for: a goal, what may change, and limits. A link carries it as text.

A wish says nothing of how plans are judged; :mod:`planner.search.tiers` does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from planner.catalog import gpus
from planner.catalog.offers import offers
from planner.linktext import GPU, VERSION, decimal, parts, require, short
from planner.plan import FIELDS
from planner.plan.frameworks import exported
from planner.plan.methods import methods
from planner.plan.plan import ROWS

MAX_CHARACTERS = 2000
MOST_GPUS = 65_536
_WORD = re.compile(r"[a-z_]{1,40}")
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What makes one plan that fits better than another; ``own`` is the field that it is about."""

    name: str
    label: str
    best: str
    """Begins the sentence about a plan that meets it."""
    own: tuple[str, ...] = ()
    shops: bool = True
    """Whether it is about which GPUs to take; the others are about the plan's own."""


_GOALS = (
    Goal(
        name="fit",
        label="Fits with a margin",
        best="Nearly the fastest, with few changes,",
        shops=False,
    ),
    Goal(name="fastest", label="Fastest", best="The fastest"),
    Goal(name="cheapest", label="Cheapest", best="The cheapest"),
    Goal(name="fewest-gpus", label="Fewest GPUs", best="The one on the fewest GPUs", own=("gpus",)),
    Goal(
        name="longest",
        label="Longest response",
        best="The one with the longest response",
        own=("response_tokens",),
        shops=False,
    ),
    Goal(
        name="largest-batch",
        label="Largest micro-batch",
        best="The one with the largest micro-batch",
        own=("micro_batch_size",),
        shops=False,
    ),
    Goal(
        name="deadline",
        label="By a deadline, under a budget",
        best="The cheapest that meets the deadline",
    ),
)
GOALS: Mapping[str, Goal] = {goal.name: goal for goal in _GOALS}
"""Every goal, in the order a page lists them."""

TRIED = tuple(name for name, row in ROWS.items() if row.search_values)
"""Fields whose row lists the values that are worth a try, each by itself."""
OWN = tuple(field for method in methods().values() for field in method.searched)
"""Fields of one method each, which change nothing in others."""
TRAINER = (
    "micro_batch_size",
    "logprob_micro_batch_size",
    "max_tokens_per_micro_batch",
    "sharding",
    "shard_size",
    "reshard_after_forward",
    "offload",
    "gradient_checkpointing",
    "activation_offload",
    "logits",
    "optimizer",
    "reference",
    *(name for name in TRIED if ROWS[name].page[0] != "rollout"),
    *OWN,
)
ENGINE = (
    "gpu_memory_utilization",
    "rollout_tensor_parallel",
    "max_num_seqs",
    *(name for name in TRIED if ROWS[name].page[0] == "rollout"),
)
PLACEMENT = ("rollout", "rollout_gpus")
USUAL = (*TRAINER, *ENGINE)
"""Free unless somebody says otherwise: how a run is laid out, never what it trains on."""
SEARCHED = (*USUAL, *PLACEMENT, "finetuning", "gpu", "gpus", "response_tokens")
"""Every field that a search can change by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A goal and its limits.

    ``free`` are the fields that may change: :data:`USUAL` where none are named. ``keep`` are those
    that the person set, which stay, whatever is free; only the goal's own field and one with a
    limit of its own here (``max_gpus``, ``cards``, ``lora_allowed``) change all the same.
    """

    goal: str = "fit"
    free: tuple[str, ...] = USUAL
    keep: tuple[str, ...] = ()
    max_gpus: int = 0
    """0: as many as the plan has."""
    cards: tuple[str, ...] = ()
    """Keys of cards that may be taken in place of the plan's; it stays one of them.

    None, and ``gpu`` among the free: every card with a listed price.
    """
    vendor: str = ""
    """Of the cards, the plan's own too; empty is any. As a link has it: ``nvidia``."""
    provider: str = ""
    """Whose offers are paid (``runpod``): a card without one is left out. Empty is any."""
    offer: str = ""
    """``on_demand`` or ``spot``: a card that nobody offers so is left out. Empty is any."""
    budget_usd: float = 0.0
    """Of the run; 0 is no limit."""
    deadline_hours: float = 0.0
    """Of the run; 0 is no limit."""
    lora_allowed: bool = False
    framework: str = ""
    """Whose script the plans are for; empty: the plan's own framework."""

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise ValueError(f"goal: {self.goal!r} is none of {', '.join(GOALS)}.")
        for field in (*self.free, *self.keep):
            if field not in FIELDS:
                raise ValueError(f"free: {field!r} is not a field of a plan.")
        strange = [field for field in self.free if field not in SEARCHED]
        if strange:
            raise ValueError(
                f"free: no search changes {strange[0]}; it can change {', '.join(SEARCHED)}."
            )
        if not 0 <= self.max_gpus <= MOST_GPUS:
            raise ValueError(f"max_gpus: give 0 to {MOST_GPUS:,}.")
        for name in ("budget_usd", "deadline_hours"):
            if not 0 <= getattr(self, name) < 1e9:
                raise ValueError(f"{name}: give a number above 0, or 0 for no limit.")
        for name, known in chosen_from().items():
            if getattr(self, name) not in ("", *known):
                raise ValueError(f"{name}: {getattr(self, name)!r} is none of {', '.join(known)}.")
        if self.goal == "deadline" and not self.deadline_hours:
            raise ValueError("deadline_hours: this goal needs one; give hours for the run.")

    @property
    def freed(self) -> frozenset[str]:
        """The fields that this wish lets change."""
        found = set(self.free) - set(self.keep)
        found |= set(GOALS[self.goal].own)
        if self.max_gpus:
            found.add("gpus")
        if self.cards:
            found.add("gpu")
        if self.lora_allowed:
            found.add("finetuning")
        return frozenset(found)

    def keeping(self, chosen: Collection[str]) -> Wish:
        """The same wish of somebody who set these fields."""
        return replace(self, keep=tuple(field for field in FIELDS if field in chosen))


def shopping(goal: str) -> tuple[str, ...]:
    """What a page or a command frees where nobody says: other cards too, but to make one fit."""
    return (*USUAL, "gpu") if GOALS[goal].shops else USUAL


def chosen_from() -> dict[str, dict[str, str]]:
    """What may stand in a wish's fields of one word, and what each is called."""
    vendors = dict.fromkeys(card.vendor for card in gpus() if card.budget_bytes)
    return {
        "framework": {name: name for name in exported()},
        "vendor": {name.lower(): name for name in vendors},
        "provider": {name.lower(): name for name in sorted({one.provider for one in offers()})},
        "offer": {"on_demand": "on demand", "spot": "spot"},
    }


def to_text(wish: Wish) -> str:
    """``1~goal~max_gpus~budget_usd~deadline_hours~lora_cards~…_free~…_keep~…_framework~…``.

    What is as usual after ``lora`` is left out.
    """
    head = (
        *(VERSION, wish.goal, str(wish.max_gpus), decimal(wish.budget_usd, 2)),
        *(decimal(wish.deadline_hours, 2), "1" if wish.lora_allowed else "0"),
    )
    found = ["~".join(head)]
    usual = {field.name: field.default for field in fields(Wish)}
    for name in ("cards", "free", "keep"):
        values = getattr(wish, name)
        if values != usual[name]:
            found.append("~".join((name, *values)).replace("_", "."))
    for name in chosen_from():
        if value := getattr(wish, name):
            found.append(f"{name}~{value.replace('_', '.')}")
    return "_".join(found)


def from_text(text: str) -> Wish:
    """Reads :func:`to_text`'s text, whoever wrote it.

    Raises:
        ValueError: what is wrong, as a part of a sentence that begins with the value's name.
    """
    names = ("goal", "max_gpus", "budget_usd", "deadline_hours", "lora")
    (goal, gpus, usd, hours, lora), rest = parts(text, names, MAX_CHARACTERS)
    for value, what in ((gpus, "GPUs"), (usd, "the budget"), (hours, "the deadline")):
        require(_NUMBER, value, what)
    if "." in gpus or lora not in ("0", "1"):
        raise ValueError(f"has {short(gpus)} as GPUs or {short(lora)} for LoRA")
    lists: dict[str, tuple[str, ...]] = {}
    words = chosen_from()
    for part in rest:
        name, *values = part.replace(".", "_").split("~")
        if name not in ("cards", "free", "keep", *words) or name in lists:
            known = ", ".join(("cards", "free", "keep", *words))
            raise ValueError(f"has {short(name)} where each of {known} may stand once")
        pattern = GPU if name == "cards" else _WORD
        for value in values:
            require(pattern, value, f"one of {name}")
        lists[name] = tuple(values)
    given: dict[str, Any] = {**lists}
    for name in words:
        found = lists.get(name, ("",))
        if len(found) != 1:
            raise ValueError(f"has {len(found)} words as its {name}")
        given[name] = found[0]
    return Wish(
        goal=goal,
        max_gpus=int(gpus),
        budget_usd=float(usd),
        deadline_hours=float(hours),
        lora_allowed=lora == "1",
        **given,
    )
