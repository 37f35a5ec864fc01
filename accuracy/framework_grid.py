"""The closed form beside dry runs of frameworks' own code, over every possible pair of settings.

``python -m accuracy.framework_grid trl`` (or another of :data:`GRIDS`) draws the plans as
:mod:`accuracy.grid` does and runs each by that framework's own code: a plan that its code does not
run is in no grid. Takes ten minutes on one core. docs/accuracy.md compares what was measured with
the closed form of the moment. ``--keep`` keeps the committed plans instead of drawing them: what a
newer rule refuses of one takes the nearest value that it does not, and plans are added for pairs of
settings that no other has, so that a plan keeps its number. It runs those that changed, and those
that the closed form of the moment no longer meets within 0.1 %.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from accuracy import grid
from accuracy.grid_summary import of_row
from accuracy.pairs import Design, Row, all_pairs
from planner.dryrun.ask.request import versions_of
from planner.frameworks.trl.limits import step_obstacles
from planner.frameworks.trl.own_step import arguments
from planner.frameworks.verl.limits import obstacles
from planner.frameworks.verl.overrides import overrides
from planner.launch.launch import Obstacle
from planner.plan import Plan, try_plan
from planner.plan.frameworks import own_step
from planner.plan.relevance import without_effect

MET = 1e-3
Factors = Mapping[str, tuple[Any, ...]]

SHARED: Factors = {
    "finetuning": ("full", "lora"),
    "lora_targets": ("all-linear", "q_proj,v_proj"),
    "dtype": ("bf16", "fp32"),
    "master_dtype": ("none", "fp32"),
    "gradient_checkpointing": ("none", "full"),
    "optimizer": ("adamw-fused", "adamw-foreach", "sgd"),
    "entropy": (False, True),
    "kl": ("none", "loss", "reward"),
    "temperature": (1.0, 0.7),
    "lengths": ((64, 64), (128, 512), (512, 129), (1000, 1048)),
    "micro_batch_size": (1, 2, 4),
    "accumulation": (1, 2, 5),
    "updates": (1, 2),
}
MODELS = (
    "HuggingFaceTB/SmolLM2-135M",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen3-0.6B",
    "meta-llama/Llama-3.2-1B",
    "allenai/OLMo-2-0425-1B",
    "Qwen/Qwen2.5-7B",
    "allenai/OLMoE-1B-7B-0924",
)
"""Vocabularies small and large, tied and not, and a mixture."""
FAMILIES = (
    "mistralai/Mistral-7B-v0.1",
    "google/gemma-2-2b",
    "microsoft/Phi-4-mini-instruct",
    "HuggingFaceTB/SmolLM3-3B",
    "allenai/Olmo-3-1025-7B",
    "Qwen/Qwen3-8B",
    "google/gemma-3-1b-pt",
    "meta-llama/Llama-3.2-3B",
    "mistralai/Mixtral-8x7B-v0.1",
    "Qwen/Qwen3-30B-A3B",
)
"""Others: windows, soft caps, fused layers, layers without rotation, two more mixtures."""
NO_CRITIC = (
    *("allenai/OLMo-2-0425-1B", "allenai/OLMoE-1B-7B-0924", "allenai/Olmo-3-1025-7B"),
    "google/gemma-3-1b-pt",
)
"""Models of which transformers has no token classifier, which verl makes its critic of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkGrid:
    """What varies in the plans of a framework, and where what they measured stands."""

    name: str
    framework: str
    rows: int
    """It has at least as many plans: every pair once, then once more, until there are."""
    factors: Factors
    in_the_way: Any
    """Fields of a plan that an export refuses."""
    told: Any
    """Every setting that the framework's own configuration is given."""
    without: Mapping[str, tuple[str, ...]]
    """Factors that a method's defaults decide."""
    alone: tuple[str, ...] = ()
    """Methods whose prompts have one response each."""
    shards: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: grid.GPUS)
    """What training is spread over; an engine apart has as many GPUs."""
    seed: int = 2026

    @property
    def measured(self) -> Path:
        """The committed dry runs."""
        return grid.MEASURED.with_name(f"closed-form-vs-{self.name}.json")

    def fields(self, row: Row) -> dict[str, Any]:
        """The plan's fields of a row of the design."""
        method: Any = row["method"]
        apart = (*grid.OF_PLAN, *self.without.get(method, ()))
        values: dict[str, Any] = {key: value for key, value in row.items() if key not in apart}
        values["framework"] = self.framework
        separate = values.get("rollout") == "vllm-separate"
        values |= self.shards[str(row.get("shards", "1"))]
        if separate:
            values |= {"gpus": 2 * values["gpus"], "rollout_gpus": values["gpus"]}
        lengths: Any = row["lengths"]
        values["prompt_tokens"], values["response_tokens"] = lengths
        values.setdefault("logprob_micro_batch_size", row["micro_batch_size"])
        gpus = values["gpus"] - values.get("rollout_gpus", 0)
        return values | grid.batches(row, gpus, 1 if method in self.alone else 2)

    def judged(self, row: Row) -> tuple[Row, Iterable[str]]:
        """The values of a row that have an effect in its plan; what to change when it has none."""
        plan, problems = try_plan(self.fields(row))
        names = [problem.field for problem in problems]
        if plan is not None:
            names = [one.field for one in self.in_the_way(plan)]
            if not names and own_step(self.framework).refusal(plan):
                names = list(self.factors)
        if plan is None or names:
            blamed = {name for field in names for name in BLAMED.get(field, (field,))}
            return {}, blamed & set(self.factors)
        idle = {*without_effect(plan), *self.without.get(plan.method, ())}
        return {name: value for name, value in row.items() if name not in idle}, ()

    def plans(self) -> list[dict[str, Any]]:
        """Fields of every plan, each once."""
        return list(grid.distinct(map(self.fields, design(self.name).rows)))

    def key(self, values: dict[str, Any]) -> str:
        """A hash of what a plan's run is told: the framework's settings, and versions."""
        plan = Plan(**values)
        told = [self.told(plan), dict(versions_of(plan)), grid.configs(plan)["policy"], values]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


BLAMED = {
    "prompts_per_update": ("accumulation", "micro_batch_size"),
    "sharding": ("shards",),
    "gradient_dtype": ("master_dtype", "dtype", "finetuning"),
    "reduce_dtype": ("dtype",),
    "response_tokens": ("lengths",),
    "logits": ("method",),
}
"""Factors behind a field that is in the way."""
def _in_verls_way(plan: Plan) -> tuple[Obstacle, ...]:
    if plan.critic == "separate" and plan.model in NO_CRITIC:
        return (Obstacle(field="model", why="It has no critic.", fix="Take another."),)
    return obstacles(plan)


NOT_SAMPLED = ("entropy", "kl", "temperature", "rollout")

_OWN = (
    FrameworkGrid(
        name="trl",
        framework="trl",
        rows=64,
        factors={
            "method": ("sft", "dpo", "grpo", "rloo"),
            "model": (*MODELS, "google/gemma-3-1b-pt"),
            **SHARED,
            "finetuning": ("full", "lora", "qlora"),
            "attention": ("eager", "sdpa"),
            "batch_shape": ("full", "padded"),
            "rollout": ("hf", "vllm-separate"),
        },
        in_the_way=step_obstacles,
        told=arguments,
        without={"sft": NOT_SAMPLED, "dpo": NOT_SAMPLED},
        alone=("sft", "dpo"),
    ),
    FrameworkGrid(
        name="verl",
        framework="verl",
        rows=48,
        factors={
            "method": ("grpo", "ppo", "rloo", "reinforce++"),
            "model": MODELS,
            **SHARED,
            "attention": ("sdpa", "flash"),
            "batch_shape": ("full", "padded", "packed"),
            "shards": tuple(grid.GPUS)[1:],
            "reshard_after_forward": (True, False),
            "logprob_micro_batch_size": (1, 2, 4),
        },
        in_the_way=_in_verls_way,
        told=overrides,
        without={},
        alone=("ppo", "reinforce++"),
    ),
)
MORE: Mapping[str, tuple[str, Factors, Mapping[str, Mapping[str, Any]]]] = {
    "trl": (
        "trl-sharded",
        {"shards": ("1", "8", "8 replicas"), "reshard_after_forward": (True, False)},
        {**grid.GPUS, "8 replicas": {"gpus": 8, "sharding": "ddp"}},
    ),
    "verl": (
        "verl-options",
        {
            "max_tokens_per_micro_batch": (0, 2500),
            "offload": ("none", "all-between-phases", "all"),
            "liger": (False, True),
        },
        grid.GPUS,
    ),
}
"""What each framework's own code came to run later, over the same pairs."""


def _each(own: FrameworkGrid) -> Iterator[FrameworkGrid]:
    """A framework's grids: its own, one of other models, and one of what came later."""
    yield own
    families = {**own.factors, "model": FAMILIES}
    yield replace(own, name=f"{own.name}-families", factors=families, seed=7)
    name, more, shards = MORE[own.name]
    yield replace(own, name=name, factors={**own.factors, **more}, shards=shards)


GRIDS = {found.name: found for own in _OWN for found in _each(own)}


@cache
def design(name: str) -> Design:
    """The grid as rows of factors, in which every possible pair occurs."""
    chosen = GRIDS[name]
    found = Design(chosen.factors, chosen.judged, seed=chosen.seed)
    while len(found.rows) < chosen.rows:
        found.cover(chosen.rows)
    return found


def kept(chosen: FrameworkGrid) -> list[dict[str, Any]]:
    """Fields of the committed plans, mended, and of new ones for the pairs that they lack."""
    data = json.loads(chosen.measured.read_text("utf-8"))
    found = [_mended(chosen, row["fields"]) for row in data["rows"]]
    drawn = design(chosen.name)
    lacking = all_pairs(drawn.factors) - drawn.impossible
    for fields in found:
        lacking -= _pairs(chosen, fields)
    for fields in chosen.plans():
        if lacking & _pairs(chosen, fields):
            found.append(fields)
            lacking -= _pairs(chosen, fields)
    return list(grid.distinct(found))


def _pairs(chosen: FrameworkGrid, fields: Mapping[str, Any]) -> set[frozenset[tuple[str, Any]]]:
    own = [(name, fields[name]) for name in chosen.factors if name in fields]
    return {frozenset(pair) for pair in combinations(own, 2)}


def _mended(chosen: FrameworkGrid, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, or those of the first plan that differs in what the rules blame of it."""
    _, problems = try_plan(fields)
    for name in [one.field for one in problems if one.field in chosen.factors]:
        for value in reversed(chosen.factors[name]):
            other = {**fields, name: value}
            plan, _ = try_plan(other)
            if plan is not None and not [*chosen.in_the_way(plan)]:
                return other
    return fields


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True)


def _unkeyed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "key"}


def _met(chosen: FrameworkGrid) -> Iterator[dict[str, Any]]:
    """Committed rows that the closed form meets, of plans that there still are."""
    for row in json.loads(chosen.measured.read_text("utf-8"))["rows"]:
        answered = try_plan(row["fields"])[0] is not None and "error" not in row
        if answered and all(abs(one.error) <= MET for one in of_row(0, row)):
            yield row


def main(arguments: list[str] | None = None) -> None:
    """Run a framework's grid and write it."""
    parser = grid.parser(prog="python -m accuracy.framework_grid", description=__doc__)
    parser.add_argument("grid", choices=GRIDS)
    parser.add_argument("--keep", action="store_true", help="run the committed plans again")
    given = parser.parse_args(arguments)
    chosen = GRIDS[given.grid]
    plans = (kept(chosen) if given.keep else chosen.plans())[:: given.stride]
    known = {_text(row["fields"]): row for row in _met(chosen)} if given.keep else {}
    new = [fields for fields in plans if _text(fields) not in known]
    ran = {_text(row["fields"]): row for row in grid.run(new, given.workers, chosen.framework)}
    rows = [{**known, **ran}[_text(fields)] for fields in plans]
    versions = dict(versions_of(Plan(**rows[0]["fields"])))
    head = {"versions": versions, **grid.drawn(design(given.grid))}
    keyed = [{"key": chosen.key(row["fields"])} | _unkeyed(row) for row in rows]
    grid.write(given.out or chosen.measured, head, keyed)


if __name__ == "__main__":
    main()
