"""The options of every free field: from the plan and the wish to a space.

The plan's own value comes first, so that of equals what a person has stays. Values are those that
people type; what belongs together is one option.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from planner import catalog
from planner.catalog.offers import offers
from planner.launch.export import exporter_of, obstacles
from planner.plan import Plan, choices, references, try_plan
from planner.plan.altered import altered
from planner.plan.chosen import followed
from planner.plan.facts import facts_of
from planner.plan.fields import MOST
from planner.plan.frameworks import exported
from planner.plan.loss import own_paths
from planner.plan.methods import method_of
from planner.plan.plan import ROWS
from planner.plan.relevance import without_effect
from planner.search.space import Options, Sizes, Space
from planner.search.tiers import FINER
from planner.search.wish import ENGINE, GOALS, OWN, TRAINER, TRIED, Wish, chosen_from
from planner.sweeps import grid
from planner.values.sharding import SHARDINGS, sharding_of

SHARES = tuple(round(share / 100, 2) for share in range(20, 100, 5))
"""Of the card for an engine."""
TENSOR_PARALLEL = (1, 2, 4, 8, 16)
AT_ONCE = (16, 32, 64, 128, 256, 512, 1024)
LENGTHS = tuple(2**power for power in range(8, 18))
MOST_ROWS = 64
"""Of a forward, but where the goal is most: more of them fill a card's kernels no better."""
NODES = (1, 2, 3, 4, 6, 8)
BUDGETS = tuple(2**power for power in range(6))
"""Longest rows that a budget of tokens holds."""

SHARDED = ("fsdp2", "zero3", "zero2", "zero1")
WHOLE = ("ddp", "none")
BETWEEN = ("optimizer-between-phases", "all-between-phases")
KEPT_FORMS = ("copy", "offloaded", "adapter-disabled")

NOT_FSDP1 = "FSDP1: FSDP2 replaces it."
NOT_WEIGHTS_ALONE = "Offloading weights without the optimizer."
NOT_FOREACH = "AdamW, foreach: fused AdamW does the same in less memory."
NOT_BETWEEN = "GPU memory utilization below 20% or between multiples of 5%."
NOT_AT_ONCE = "Max sequences that are not a power of two."
NOT_MORE_ROWS = "Micro-batches above {}: they use a GPU no better."
NOT_FINER = "Lengths that are not a multiple of {} tokens."
NOT_QLORA = "QLoRA: its 4-bit base is a different model."
NOT_FROZEN_ADAPTER = "A frozen second adapter: its reference is not the base model."
NOT_SGD = "SGD: it is another optimizer, not another layout."
NOT_RUN_ON = "{} GPUs: this plan's launch script does not run on that many."
NOT_CACHED = (
    "Reference log-probs cached in advance: responses are new in every step, so other GPUs would "
    "have to score them."
)
NOT_A_BUDGET = (
    "A token budget for each micro-batch: with padded rows it is the same as a number of rows."
)
NOT_SEPARATE = "Dedicated rollout GPUs, unless you ask for them."
NOT_OTHER_PARTS = "Dedicated rollout GPUs other than a half or a quarter of all GPUs."


def space_of(plan: Plan, wish: Wish) -> Space:
    """The space of a wish around a plan.

    Raises:
        ValueError: naming the field, where the goal has nothing to change.
    """
    without = without_effect(plan)
    return _Maker(plan, wish, frozenset(wish.freed - without.keys())).made()


class _Maker:
    def __init__(self, plan: Plan, wish: Wish, free: frozenset[str]) -> None:
        self.own = self.plan = plan
        self.wish, self.free = wish, free
        self.left_out: list[str] = []
        says = plan.framework in exported() and not obstacles(plan, plan.framework)
        self.framework = plan.framework if says else ""

    def made(self) -> Space:
        """The space; its parts are methods in the order of its fields."""
        goal = GOALS[self.wish.goal]
        if lacking := [name for name in goal.own if name not in self.free]:
            raise ValueError(f"{lacking[0]}: has no effect in this plan; choose another goal.")
        asked = {"gpus": self.gpus(), "response_tokens": self.lengths()}
        scenario = {name: values for name, values in asked.items() if name in self.free}
        self.plan = self.least(scenario.get("gpus", ()))
        if "gpus" in scenario:
            scenario["gpus"] = self.said(scenario["gpus"])
        return Space(
            plan=self.plan,
            machines=self.machines(),
            trainer=(
                *(self.finetuning(), self.state(), self.activations(), self.losses()),
                *(self.optimizers(), self.references(), *map(self.values, OWN)),
                *(self.listed(name, ROWS[name].search_values) for name in TRIED if name in TRAINER),
            ),
            engine=(
                self.listed("rollout_tensor_parallel", self.tensor_parallel()),
                *(self.listed(name, ROWS[name].search_values) for name in TRIED if name in ENGINE),
            ),
            scenario=scenario,
            trainer_sizes=self.trainer_sizes(scenario),
            engine_sizes=self.engine_sizes(),
            framework=self.framework,
            keep=self.wish.keep,
            left_out=tuple(dict.fromkeys(self.left_out)),
        )

    def least(self, gpus: Sequence[int]) -> Plan:
        """The plan with its free sizes at their least, on as many GPUs as make it valid."""
        least = {
            "micro_batch_size": 1,
            "logprob_micro_batch_size": 1,
            "max_tokens_per_micro_batch": 0,
        }
        # What moves along with a size does so here, too: a framework may have one field for both.
        free = {name: value for name, value in least.items() if name in self.free}
        sizes = grid.followed(self.own, free)
        for count in (self.own.gpus, *reversed(gpus)):
            found, _ = try_plan({**self.own.model_dump(), **sizes, "gpus": count})
            if found is not None:
                return found
        return self.own

    def listed(self, name: str, values: Sequence[Any]) -> Options:
        """An option for each value of one field."""
        if name not in self.free:
            return ({},)
        return tuple({name: value} for value in dict.fromkeys((getattr(self.own, name), *values)))

    def values(self, name: str) -> Options:
        """An option for every value that plans can have."""
        return self.listed(name, choices(name) or (False, True))

    # The machine

    def gpus(self) -> tuple[int, ...]:
        """Numbers of GPUs: doubled up to the most, and whole nodes; an engine's own are not all."""
        own, most = self.own.gpus, self.wish.max_gpus or self.own.gpus
        least = self.own.rollout_gpus + 1
        if most < least:
            raise ValueError(f"max_gpus: vLLM alone uses {least - 1:,}; allow more.")
        counts = {own, least, most, *(2**power for power in range(17))}
        counts.update(nodes * self.own.gpus_per_node for nodes in NODES)
        return tuple(sorted(count for count in counts if least <= count <= most))

    def said(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Of these numbers of GPUs, those that the framework's script runs on."""
        found = tuple(count for count in counts if not self.minds("gpus", count))
        if len(found) < len(counts):
            left = ", ".join(f"{count:,}" for count in counts if count not in found)
            self.left_out.append(NOT_RUN_ON.format(left))
        return found

    def lengths(self) -> tuple[int, ...]:
        """Numbers of response tokens, doubled."""
        if "response_tokens" in self.free:
            self.left_out.append(NOT_FINER.format(FINER["response_tokens"].unit))
        every = sorted({self.own.response_tokens, *LENGTHS})
        if (said := bisect_left(every, 1, key=self.too_long)) in (0, len(every)):
            return tuple(every)
        # The longest that the framework's script takes ends the doubling.
        between = range(every[said - 1], every[said], FINER["response_tokens"].unit)
        longest = between[bisect_left(between, 1, key=self.too_long) - 1]
        return tuple(sorted({*every[:said], longest}))

    def too_long(self, tokens: int) -> bool:
        """Whether the framework's script minds responses of so many tokens."""
        return self.minds("response_tokens", tokens)

    def machines(self) -> Options:
        """Cards, and whether the engine has GPUs of its own."""
        cards = self.cards()
        placed: list[dict[str, Any]] = [{}]
        together = self.own.rollout == "vllm-colocated"
        if together and "rollout" in self.wish.freed:
            counts = self.gpus() if "gpus" in self.free else (self.own.gpus,)
            placed += [
                {"rollout": "vllm-separate", "rollout_gpus": count // part, "gpus": count}
                for count in counts
                for part in (2, 4)
                if count >= part
            ]
            self.left_out.append(NOT_OTHER_PARTS)
        elif together:
            self.left_out.append(NOT_SEPARATE)
        return tuple({**card, **place} for card in cards for place in placed)

    def cards(self) -> Options:
        """The plan's own card and those that may take its place, at what the wish would pay."""
        wish, words = self.wish, chosen_from()
        vendor, *how = (
            words[name].get(getattr(wish, name), "") for name in ("vendor", "provider", "offer")
        )
        others = (wish.cards or priced()) if "gpu" in self.free else ()
        own = facts_of(self.own).gpu
        cards = {own.key: own, **{key: catalog.gpu(key) for key in others if key != own.key}}
        for card in cards.values():
            card.require_budget_bytes()
        asked = {
            key: offers(key, *how) for key, card in cards.items() if vendor in ("", card.vendor)
        }
        without = [cards[key].name for key, listed in asked.items() if any(how) and not listed]
        found = tuple(
            {
                **(
                    {}
                    if key == own.key
                    else {"gpu": key, "gpu_bytes": 0, "price_per_gpu_hour": 0.0}
                ),
                **({"price_per_gpu_hour": listed[0].usd_per_hour} if any(how) else {}),
            }
            for key, listed in asked.items()
            if listed or not any(how)
        )
        kind = " ".join(filter(None, how))
        if without:
            self.left_out.append(f"{', '.join(without)}: the catalog has no {kind} price.")
        if not found:
            raise ValueError(
                f"cards: none of them is from {vendor or 'any vendor'} with a {kind} "
                "price in the catalog; allow others."
            )
        return found

    # The trainer

    def finetuning(self) -> Options:
        """Adapters in place of all weights, with what follows them."""
        if "finetuning" not in self.free or not self.wish.lora_allowed:
            return ({},)
        before = self.plan.model_dump()
        found: list[dict[str, Any]] = [{}]
        after = followed(before, self.wish.keep, {"finetuning": "lora"})
        found.append({name: value for name, value in after.items() if value != before[name]})
        self.left_out.append(NOT_QLORA)
        return tuple(found)

    def state(self) -> Options:
        """How training state is spread, over how many GPUs, and where it waits."""
        own = self.own
        if "sharding" in self.free and sharding_of(own).fsdp != 1:
            self.left_out.append(NOT_FSDP1)
        if "offload" in self.free and not own.offload.startswith("parameters"):
            self.left_out.append(NOT_WEIGHTS_ALONE)
        kinds = (own.sharding, *SHARDED, *WHOLE) if "sharding" in self.free else (own.sharding,)
        found: list[dict[str, Any]] = []
        for kind in dict.fromkeys(kinds):
            for size in self.groups(kind):
                for after in self.resharded(kind):
                    found += [
                        {
                            "sharding": kind,
                            "shard_size": size,
                            "reshard_after_forward": after,
                            "offload": place,
                        }
                        for place in self.offloads(kind)
                    ]
        return tuple(found)

    def groups(self, kind: str) -> tuple[int, ...]:
        """How many GPUs share one copy: all, or those of a node."""
        own, many = self.own, max(self.own.gpus, self.wish.max_gpus) > self.own.gpus_per_node
        if "shard_size" not in self.free or kind in WHOLE:
            return (own.shard_size,)
        return tuple(dict.fromkeys((own.shard_size, 0, *((own.gpus_per_node,) if many else ()))))

    def resharded(self, kind: str) -> tuple[bool, ...]:
        """Whether gathered weights are freed after each forward."""
        own = self.own.reshard_after_forward
        both = "reshard_after_forward" in self.free and SHARDINGS[kind].fsdp > 0
        return (own, not own) if both else (own,)

    def offloads(self, kind: str) -> tuple[str, ...]:
        """What waits in host RAM."""
        own = self.own.offload
        if "offload" not in self.free:
            return (own,)
        throughout = ("optimizer", "all") if SHARDINGS[kind].zero else ("all",)
        return tuple(dict.fromkeys((own, "none", *BETWEEN, *throughout)))

    def activations(self) -> Options:
        """What is kept for the backward, and where."""
        names = ("gradient_checkpointing", "activation_offload")
        own = tuple(getattr(self.own, name) for name in names)
        kept = zip(names, own, strict=True)
        fixed = {name: value for name, value in kept if name not in self.free}
        pairs = dict.fromkeys((own, ("none", False), ("full", False), ("full", True)))
        options = [dict(zip(names, pair, strict=True)) for pair in pairs]
        return tuple(option for option in options if {**option, **fixed} == option)

    def losses(self) -> Options:
        """Ways to meet the vocabulary that the framework itself has."""
        return self.listed("logits", own_paths(self.own))

    def optimizers(self) -> Options:
        """The same AdamW with fewer bytes of state."""
        own = self.own.optimizer
        if "adamw" not in own:
            return ({},)
        if "optimizer" in self.free:
            self.left_out += [NOT_SGD, *([NOT_FOREACH] if own != "adamw-foreach" else [])]
        return self.listed("optimizer", ("adamw-fused", "adamw-8bit", "paged-adamw-8bit"))

    def references(self) -> Options:
        """Where the reference's weights are."""
        if not references.compares(self.own):
            return ({},)
        sampled = method_of(self.own).generates
        if sampled and "reference" in self.free:
            self.left_out.append(NOT_CACHED)
        if "reference" in self.free:
            self.left_out.append(NOT_FROZEN_ADAPTER)
        return self.listed("reference", KEPT_FORMS if sampled else (*KEPT_FORMS, "cached-logprobs"))

    def trainer_sizes(self, scenario: Sizes) -> tuple[Sizes, ...]:
        """Rows of a forward, and budgets of tokens."""
        plan, free = self.own, self.free
        each = plan.prompts_per_update * plan.responses_per_prompt
        least = min(scenario.get("gpus", (plan.gpus,))) - plan.rollout_gpus
        cap = each if self.wish.goal == "largest-batch" else MOST_ROWS
        most = max(min(each // max(least, 1), cap), plan.micro_batch_size)
        found: dict[str, tuple[int, ...]] = {}
        if "micro_batch_size" in free:
            counts = tuple(count for count in range(1, most + 1) if each % count == 0)
            found["micro_batch_size"] = counts
            if most == MOST_ROWS < each // max(least, 1):
                self.left_out.append(NOT_MORE_ROWS.format(MOST_ROWS))
        if "logprob_micro_batch_size" in free and not self.minds("logprob_micro_batch_size", 2):
            found["logprob_micro_batch_size"] = tuple(
                2**power for power in range(MOST_ROWS.bit_length())
            )
        if "max_tokens_per_micro_batch" not in free:
            return (found,)
        if plan.batch_shape != "packed":
            self.left_out.append(NOT_A_BUDGET)
            return (found,)
        longest = max(scenario.get("response_tokens", (plan.response_tokens,)))
        row = plan.prompt_tokens + longest
        budgets = tuple(row * times for times in BUDGETS if row * times <= MOST)
        return (found, {"max_tokens_per_micro_batch": budgets}) if budgets else (found,)

    # The engine

    def tensor_parallel(self) -> tuple[int, ...]:
        """Sizes of an engine within a node."""
        most = min(self.own.gpus_per_node, max(self.own.gpus, self.wish.max_gpus))
        return tuple(size for size in TENSOR_PARALLEL if size <= most)

    def engine_sizes(self) -> Sizes:
        """The engine's share, and how many sequences it decodes at once.

        The framework may decide the latter.
        """
        plan, found = self.own, dict[str, tuple[Any, ...]]()
        if "gpu_memory_utilization" in self.free:
            shares = {plan.gpu_memory_utilization, *SHARES}
            found["gpu_memory_utilization"] = tuple(sorted(shares))
            self.left_out.append(NOT_BETWEEN)
        if "max_num_seqs" in self.free and not self.minds("max_num_seqs", 1):
            whole = plan.prompts_per_step * plan.responses_per_prompt
            counts = {plan.max_num_seqs, whole, *(count for count in AT_ONCE if count < whole)}
            found["max_num_seqs"] = tuple(sorted(counts))
            self.left_out.append(NOT_AT_ONCE)
        return found

    def minds(self, name: str, value: int) -> bool:
        """Whether the framework's script refuses this value of a field."""
        if not self.framework:
            return False
        found = exporter_of(self.framework).obstacles(altered(self.plan, {name: value}))
        return any(one.field == name for one in found)


def priced() -> tuple[str, ...]:
    """Cards that a plan can be judged on in bytes, seconds and dollars."""
    return tuple(
        card.key
        for card in catalog.gpus()
        if card.budget_bytes and card.bf16_flops_per_second and card.price
    )
