"""More freedom never gives a worse best; no single edit beats a goal's best."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from evidence import ROOT, Evidence, named
from planner.plan import Plan, choices
from planner.plan.chosen import followed
from planner.plan.presets import presets
from planner.plan.trainers import able
from planner.search import search
from planner.search.judging import rows_of
from planner.search.pool import Candidate, Pool
from planner.search.staged import Staged
from planner.search.tiers import NAMES
from planner.search.wish import GOALS, Wish
from planner.values.dealing import rest
from search.whole import staged

PLANS: dict[str, dict[str, Any]] = {
    "small": {"model": "Qwen/Qwen2.5-0.5B", "gpu": "rtx-4090", "gpus": 1},
    "sharded": {"model": "Qwen/Qwen2.5-7B", "framework": "verl", "gpu": "a100-80gb", "gpus": 8},
    "supervised": {
        "model": "Qwen/Qwen2.5-3B", "framework": "trl", "method": "sft", "gpu": "l40s", "gpus": 2,
        "rollout": "none", "kl": "none", "prompts_per_step": 64, "responses_per_prompt": 1,
    },
    "an engine apart": {
        "model": "Qwen/Qwen2.5-1.5B", "framework": "verl", "gpus": 4, "rollout": "vllm-separate",
        "rollout_gpus": 2,
    },
}  # fmt: skip
ON_GPUS: dict[str, dict[str, Any]] = {
    "a program on one node": {
        "model": "Qwen/Qwen2.5-1.5B", "method": "dpo", "finetuning": "lora", "rollout": "none",
        "reference": "adapter-disabled", "responses_per_prompt": 1, "gpus": 4, "sharding": "ddp",
    },
    "trl": {"model": "Qwen/Qwen2.5-1.5B", "framework": "trl", "gpus": 2},
    "verl": {"model": "Qwen/Qwen2.5-1.5B", "framework": "verl", "gpus": 2},
    "one GPU alone": {
        "model": "Qwen/Qwen2.5-0.5B", "method": "grade", "gpus": 1, "sharding": "none",
        "prompts_per_step": 4, "response_tokens": 16,
    },
}  # fmt: skip
HOURS = 200.0
"""A deadline that some plans meet and some do not."""
FREER = (
    ("gradient_checkpointing",),
    ("gradient_checkpointing", "micro_batch_size"),
    ("gradient_checkpointing", "micro_batch_size", "optimizer"),
    ("gradient_checkpointing", "micro_batch_size", "optimizer", "rollout_tensor_parallel"),
)


def bests(plan: Plan, wish: Wish) -> dict[str, list[float]]:
    """The line of each tier's winner, of those that have one."""
    found = staged(plan, wish)
    winners = {name: found.winner(name) for name in NAMES}
    return {name: [*one.line] for name, one in winners.items() if one is not None}


def never_worse(wishes: Sequence[Wish], found: Sequence[dict[str, list[float]]]) -> None:
    """Each wish allows what those before it do, and more."""
    before: dict[str, list[float]] = {}
    for wish, lines in zip(wishes, found, strict=True):
        for name in before:
            assert name in lines and lines[name] <= before[name], (name, wish)
        before = lines
    assert before


def wish(goal: str, **more: Any) -> Wish:
    return Wish(goal=goal, deadline_hours=HOURS if goal == "deadline" else 0.0, **more)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("goal", GOALS)
def test_more_freedom_never_gives_a_worse_best(plan: str, goal: str) -> None:
    """Of the trainer, of the engine, of what is trained, of how many GPUs and of which."""
    steps = FREER if goal in ("fastest", "largest-batch") else FREER[::3]
    wishes = [wish(goal, free=free) for free in steps]
    many = 2 * Plan(**PLANS[plan]).gpus
    for more in ({"lora_allowed": True}, {"max_gpus": many}, {"cards": ("h100-80gb", "l40s")}):
        wishes.append(replace(wishes[-1], **more))
    if goal == "longest":  # each is divided down to 128 tokens, which takes ten times as long
        wishes = [wishes[1], wishes[-1]]
    asked, inputs = Plan(**PLANS[plan]), [PLANS[plan], [*map(asdict, wishes)]]
    found = EVIDENCE.figures(
        f"freedom, {plan}, {goal}", inputs, lambda: [bests(asked, wish) for wish in wishes]
    )
    never_worse(wishes, found)


def test_the_longest_on_one_card_is_not_hidden_by_another_as_long_on_the_grid() -> None:
    """Both hold 65,536 tokens; one has room for a few more, the other is faster."""
    plan, free = Plan(**PLANS["sharded"]), ("offload", "micro_batch_size")
    one = Wish(goal="longest", free=free, max_gpus=32)
    wishes = [one, replace(one, cards=("h100-80gb",))]
    never_worse(wishes, [bests(plan, wish) for wish in wishes])


def test_all_weights_keep_their_dtypes_where_adapters_were_allowed() -> None:
    """verl has adapters in the frozen weights' dtype, which no plan of all weights may be left."""
    plan = Plan(**PLANS["sharded"])
    for goal in ("fastest", "cheapest"):
        found = staged(plan, Wish(goal=goal, free=FREER[-1], lora_allowed=True))
        for name in NAMES:
            one = found.winner(name)
            made = found.space.made(one.changes) if one else None
            assert made is not None
            assert made.finetuning == "lora" or made.master_dtype == plan.master_dtype == "fp32"


def test_an_engine_of_its_own_leaves_the_trainer_one_gpu_at_least() -> None:
    plan = Plan(**PLANS["an engine apart"])
    fewest = staged(plan, Wish(goal="fewest-gpus", free=(), max_gpus=8)).winner("balanced")
    assert fewest is not None and fewest.changes["gpus"] == plan.rollout_gpus + 1
    with pytest.raises(ValueError, match=r"^max_gpus: vLLM alone uses 2"):
        staged(plan, Wish(free=(), max_gpus=2))


@pytest.mark.parametrize("plan", ON_GPUS)
def test_more_gpus_never_give_a_worse_best(plan: str) -> None:
    wishes = [Wish(goal="fastest", free=(), max_gpus=most) for most in (0, 8, 32)]
    never_worse(wishes, [bests(Plan(**ON_GPUS[plan]), wish) for wish in wishes])


ON_ANY = tuple(goal for goal in GOALS if goal != "longest")
GOALS_OF: dict[str, tuple[str, ...]] = {
    "small": tuple(GOALS),
    "sharded": ON_ANY,
    "supervised": ON_ANY,
    "an engine apart": ON_ANY,
}
VALUES: dict[str, tuple[Any, ...]] = {
    "micro_batch_size": (*range(1, 64), 64, 128, 256),
    "optimizer": ("adamw-fused", "adamw-foreach", "adamw-8bit", "paged-adamw-8bit"),
    "gradient_checkpointing": ("none", "full"),
    "rollout_tensor_parallel": (1, 2, 4, 8),
    "offload": choices("offload"),
    "gpu_memory_utilization": tuple(share / 100 for share in range(20, 100, 5)),
    "response_tokens": tuple(range(128, 40_000, 128)),
    "gpus": tuple(range(1, 17)),
    "gpu": ("l40s", "h100-80gb", "a100-80gb"),
}
"""What a person may set instead, the grid's and others; what is left out is said."""


def edited(found: Staged, one: Candidate, field: str) -> list[dict[str, Any]]:
    """A plan's changes with another value of one field, and of what belongs to it."""
    if field == "finetuning":
        together = {name for option in found.space.trainer[0] for name in option}
        kept = {name: value for name, value in one.changes.items() if name not in together}
        return [{**kept, **option} for option in found.space.trainer[0]]
    typed = {"gpu_bytes": 0, "price_per_gpu_hour": 0.0} if field == "gpu" else {}
    return [{**one.changes, **typed, field: value} for value in VALUES[field]]


CASES = [(key, goal, {}) for key, goals in GOALS_OF.items() for goal in goals]
CASES += [
    (key, goal, {"max_gpus": 16, "cards": VALUES["gpu"], "lora_allowed": True})
    for key, goal in (("sharded", "fastest"), ("an engine apart", "cheapest"), ("small", "fit"))
]


EVIDENCE = Evidence(
    "searches",
    of=(
        "search.test_properties",
        *named("methods/*/*.py", "frameworks/*/*.py", "frameworks/*/trainers/*.py"),
    ),
    kinds={f"freedom, {plan}, {goal}": "freedom" for plan in PLANS for goal in GOALS}
    | {f"edits, {key}, {goal}, {len(more)} more": "edits" for key, goal, more in CASES}
    | {f"longest, {framework}": "longest" for framework in able("grpo")},
    within=1e-9,
    closed_form=True,
)


def longest(plan: Plan) -> dict[str, int]:
    """Tokens of each recommendation's response."""
    found = search(plan, Wish(goal="longest"))
    named = [(name, one) for one in found.recommendations for name in one.names]
    return {name: one.plan.response_tokens for name, one in named if name != "knee"}


@pytest.mark.parametrize("framework", able("grpo"))
def test_the_longest_response_is_found_in_every_framework(framework: str) -> None:
    """Token budgets of the longest rows that are tried would be more than a plan can say."""
    plan = Plan(**followed(presets()["grpo-7b@1"].plan.model_dump(), {}, {"framework": framework}))
    inputs = plan.model_dump(mode="json")
    found = EVIDENCE.figures(f"longest, {framework}", inputs, lambda: longest(plan))
    assert set(found) == set(NAMES)
    assert found["aggressive"] > plan.response_tokens


def whole(found: Staged, changes: Mapping[str, Any]) -> bool:
    """Whether it is a plan that can be said and has no batch to fill up, as a search takes none."""
    plan = found.space.made(changes)
    if plan is None or not found.expressible(changes):
        return False
    return bool(plan.max_tokens_per_micro_batch) or not rest(plan, plan.micro_batch_size)


def with_edits(plan: Plan, asked: Wish) -> dict[str, Any]:
    """Each tier's best line, that of the best single edit of each field, how many were tried."""
    found = staged(plan, asked)
    figures: dict[str, Any] = {"tried": 0}
    for name in NAMES:
        one = found.winner(name)
        assert one is not None
        edits: dict[str, list[float]] = {}
        for field in sorted((VALUES.keys() | {"finetuning"}) & asked.freed):
            pool = Pool(found.space.plan, asked, plan)
            said = [each for each in edited(found, one, field) if whole(found, each)]
            pool.take(rows_of(found.space.plan, said, {}, None), said, {})
            figures["tried"] += pool.plans
            for other in pool.best[name][:1]:
                edits[field] = [*other.line]
        figures[name] = {"best": [*one.line], "edits": edits}
    return figures


@pytest.mark.parametrize(("key", "goal", "more"), CASES)
def test_no_single_edit_beats_the_best(key: str, goal: str, more: dict[str, Any]) -> None:
    """Whatever value of one free field is tried, by an estimate of its own."""
    free = (*FREER[-1], "offload", "gpu_memory_utilization")
    most = {"max_gpus": 16} if goal == "fewest-gpus" else {}
    asked = wish(goal, free=free, **{**most, **more})
    found = EVIDENCE.figures(
        f"edits, {key}, {goal}, {len(more)} more",
        [PLANS[key], asdict(asked)],
        lambda: with_edits(Plan(**PLANS[key]), asked),
    )
    for name in NAMES:
        for field, line in found[name]["edits"].items():
            assert line >= found[name]["best"], (name, field)
    assert found["tried"] > 20


LOADED = """
import sys
from planner.plan import Plan
from planner.search.wish import Wish
from search.whole import staged
for framework in ("plain", "trl", "verl"):
    assert staged(Plan(framework=framework, gpus=2), Wish(free=())).pool.plans
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(*filter(None, files), sep="\\n")
"""


def test_the_key_covers_whatever_a_search_loads() -> None:
    """Methods, frameworks and trainers are imported by name, which no reading of sources finds."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT / "tests", check=True, capture_output=True,
        text=True, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    loaded = {Path(line) for line in done.stdout.splitlines()}
    ours = {path for path in loaded if path.is_relative_to(ROOT / "planner")}
    assert len(ours) > 200
    assert ours <= EVIDENCE.files
