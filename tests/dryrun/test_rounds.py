"""Rounds put in give, event by event, what running every round gives."""

from __future__ import annotations

import hashlib
import warnings
from itertools import zip_longest
from typing import Any

import pytest
import torch

from accuracy.tiny import CONFIGS
from evidence import STEPS as STEP_MODULES
from evidence import Evidence
from planner import catalog
from planner.dryrun.allocator import AllocatorSettings
from planner.dryrun.logs.curve import peaks
from planner.dryrun.logs.log import BIRTH, DEATH, OUTSIDE, PHASE, ROUND, SCRATCH, STEP, Log, Made
from planner.dryrun.logs.repeat import Irregular
from planner.dryrun.logs.replay import replay
from planner.dryrun.logs.rounds import AFTER, BEFORE, chosen, unroll
from planner.dryrun.logs.series import NoSeries, through
from planner.dryrun.run.execute import dry_run
from planner.plan import Plan

TOP_K: dict[str, Any] = {"grade_top_k": 40}
SCATTERED = {**TOP_K, "grade_dense_scatter": True}
LAYERS = {"gradient_checkpointing": "full"}
STEPS = {"grade_step_checkpointing": True}
LORA = {"finetuning": "lora", "lora_rank": 4}
CACHED = {"grade_reference_cache": True}
SDPA = {"attention": "sdpa"}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("qwen3", {}),
    ("qwen3", {"response_tokens": 10}),
    ("qwen3", {"response_tokens": 37}),
    ("qwen3", {"grade_estimator": "straight-through", **TOP_K, **LAYERS}),
    ("qwen3", {**SCATTERED, **STEPS}),
    ("qwen3", {**TOP_K, "grade_reward_input": "sparse"}),
    ("qwen3", {**SCATTERED, "grade_reward_input": "sparse", **LAYERS, **STEPS}),
    ("qwen3", {"grade_kl": "batch", "batch_shape": "padded"}),
    ("qwen3", {"grade_kl": "batch", **CACHED}),
    ("qwen2", {"grade_kl": "online", **CACHED, "prompts_per_step": 6}),
    ("qwen2", {"grade_kl": "online", "reference": "offloaded", "dtype": "fp32"}),
    ("qwen3", {"grade_kl": "online-metric", **SCATTERED, **CACHED, **STEPS}),
    ("llama", {**LORA, "grade_kl": "online", **CACHED, **LAYERS}),
    ("llama", {**LORA, "grade_kl": "batch", "grade_estimator": "straight-through"}),
    ("llama", {**LORA, "lora_dropout": 0.05, **CACHED, "grade_kl": "online"}),
    ("llama", {**LORA, "grade_autocast": True}),
    ("qwen2", {**SDPA, "master_dtype": "none", "optimizer": "adamw-fused"}),
    ("qwen2", {**SDPA, "batch_shape": "padded", "grade_kl": "online", "response_tokens": 29}),
    ("gpt2", {"dtype": "fp32", **SDPA, "response_tokens": 40}),
]


def tiny(family: str, *, layers: int = 2, **changes: Any) -> tuple[Plan, dict[str, Any]]:
    depth = "n_layer" if family == "gpt2" else "num_hidden_layers"
    config = {**CONFIGS[family], "model_type": family, depth: layers}
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config(config),
        "method": "grade",
        "gpus": 1,
        "prompts_per_step": 3,
        "micro_batch_size": 3,
        "prompt_tokens": 13,
        "response_tokens": 17,
        "batch_shape": "full",
        "optimizer": "adamw-foreach",
        "gradient_checkpointing": "none",
        "attention": "eager",
    }
    return Plan(**{**values, **changes}), config


def both(plan: Plan, config: dict[str, Any]) -> tuple[Log, Log]:
    return run(plan, config, full_length=False), run(plan, config, full_length=True)


def run(plan: Plan, config: dict[str, Any], *, full_length: bool) -> Log:
    torch.set_num_threads(1)
    configs = dict.fromkeys(("policy", "critic", "reward"), config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dry_run(plan, configs, full_length=full_length)


def told(log: Log) -> list[Any]:
    """Every event by what it is and in which order storages were born; ends in a row are a set."""
    found: list[Any] = []
    ends: list[int] = []
    numbers: dict[int, int] = {}
    for kind, key, value in log.events:
        if kind == DEATH:
            ends.append(numbers[key])
            continue
        if ends:
            found.append(sorted(ends))
            ends = []
        if kind == BIRTH:
            numbers[key] = len(numbers)
            found.append((value, log.made[key]))
        elif kind != ROUND:
            found.append((kind, log.names[key] if kind in (PHASE, SCRATCH) else key, value))
    return [*found, sorted(ends)] if ends else found


def difference(short: Log, whole: Log) -> Any:
    """Where two logs first differ; None where they are alike."""
    pairs = enumerate(zip_longest(told(short), told(whole)))
    return next(((at, one, other) for at, (one, other) in pairs if one != other), None)


def named(family: str, changes: dict[str, Any]) -> str:
    return f"{family}-{'-'.join(map(str, changes.values()))}"


EMPTIED = ("never", "between-phases")
DEEP = {each: f"depth and length, cache emptied {each}" for each in EMPTIED}
WHOLE = "what follows no formula"
EVIDENCE = Evidence(
    "dry-run-rounds",
    of=("planner.dryrun.run.execute", "accuracy.tiny", "dryrun.test_rounds", *STEP_MODULES),
    kinds={named(family, changes): family for family, changes in CASES}
    | dict.fromkeys((*DEEP.values(), WHOLE), "more"),
)


def digest(log: Log) -> list[Any]:
    """How many events a log tells of, and a hash of them all."""
    events = told(log)
    return [len(events), hashlib.sha256(repr(events).encode()).hexdigest(), log.rounds]


@pytest.mark.parametrize(
    ("family", "changes"), CASES, ids=[named(family, changes) for family, changes in CASES]
)
def test_rounds_put_in_are_those_that_run(family: str, changes: dict[str, Any]) -> None:
    plan, config = tiny(family, **changes)

    def compute() -> dict[str, Any]:
        short, whole = both(plan, config)
        assert difference(short, whole) is None
        notes = [note for note in short.notes if "full length" in note]
        return {"put in": digest(short), "whole": digest(whole), "not put in": notes}

    found = EVIDENCE.figures(named(family, changes), [plan.model_dump(), config], compute)
    assert found["put in"] == found["whole"]
    assert found["put in"][-1] == 0
    assert not found["not put in"]


@pytest.mark.parametrize("empty_cache", EMPTIED)
def test_depth_and_length_together(empty_cache: str) -> None:
    changes: dict[str, Any] = {"empty_cache": empty_cache, "response_tokens": 21}
    plan, config = tiny("qwen3", layers=9, grade_kl="online", **changes)

    def compute() -> dict[str, Any]:
        short, whole = both(plan, config)
        assert difference(short, whole) is None
        return {"put in": held(short), "whole": held(whole)}

    found = EVIDENCE.figures(DEEP[empty_cache], [plan.model_dump(), config], compute)
    assert found["put in"] == found["whole"]


def held(log: Log) -> list[Any]:
    """Bytes of every phase and whose they are; and as the allocator replays them."""
    sizes = [[one.phase, one.total_bytes, sorted([*k, v] for k, v in one.shares.items())]
             for one in peaks(log)]  # fmt: skip
    settings = (AllocatorSettings(expandable_segments=expandable) for expandable in (False, True))
    return [sizes, *(repr(replay(log, each).phases) for each in settings)]


def test_what_follows_no_formula_runs_whole() -> None:
    """A window of 32 tokens that rows grow out of between the rounds that run."""
    changes: dict[str, Any] = {"grade_kl": "online", **CACHED, "response_tokens": 24}
    plan, config = tiny("gemma3_text", **changes)

    def compute() -> dict[str, Any]:
        short, whole = both(plan, config)
        assert difference(short, whole) is None
        # No hash of theirs: which of two masks of one size goes first is a process's own.
        alike = digest(short) == digest(whole)
        return {"alike": alike, "events": len(told(short)), "notes": short.notes}

    found = EVIDENCE.figures(WHOLE, [plan.model_dump(), config], compute)
    assert found["alike"]
    assert any(note.startswith("Run at full length: ") for note in found["notes"])


def test_which_rounds_run() -> None:
    assert chosen(1) == [0]
    assert chosen(BEFORE + AFTER + 1) == list(range(BEFORE + AFTER + 1))
    assert chosen(32) == [0, 1, 2, 3, 28, 29, 30, 31]


def log_of(places: list[int], prompt: int = 10) -> Log:
    """Round t keeps 4 (prompt + t) bytes until the way back, where it needs as many again."""
    log = Log(rounds=places[-1] + 1)

    def born(size: int) -> tuple[int, int, int]:
        key = len(log.made)
        log.made[key] = Made(4 * size, "op", "", "policy", "activations", (size,), "float32")
        return (BIRTH, key, 4 * size)

    log.events += [(STEP, 0, 0), (PHASE, log.name("forward"), 1)]
    for index, place in enumerate(places):
        log.events += [(ROUND, index, 0), born(prompt + place)]
    log.events += [(ROUND, OUTSIDE, 0), (PHASE, log.name("forward"), 0)]
    for index, place in reversed(list(enumerate(places))):
        more = born(prompt + place)
        size = 4 * (prompt + place)
        log.events += [(ROUND, index, 0), more, (DEATH, more[1], size), (DEATH, index, size)]
    log.events.append((ROUND, OUTSIDE, 0))
    return log


def test_a_log_by_hand() -> None:
    whole = unroll(log_of(chosen(20)), 10)
    # Rows of 10 to 29 tokens: 20 * 10 + 19 * 20 / 2 numbers.
    assert peaks(whole)[0].requested_bytes == 4 * (200 + 190)
    assert difference(whole, log_of(list(range(20)))) is None
    births = [key for kind, key, _ in whole.events if kind == BIRTH]
    assert len(births) == 40


def test_rounds_that_differ_are_not_put_in() -> None:
    log = log_of(chosen(20))
    log.made[99] = log.made[BEFORE]._replace(op="another")
    log.events.insert(log.events.index((ROUND, BEFORE, 0)) + 1, (BIRTH, 99, 8))
    with pytest.raises(Irregular, match="differ"):
        unroll(log, 10)


def test_a_size_that_jumps_is_not_put_in() -> None:
    log = log_of(chosen(20))
    made = log.made[BEFORE]
    log.made[BEFORE] = made._replace(shape=(made.shape[0] + 1,))
    with pytest.raises(Irregular, match="no formula"):
        unroll(log, 10)


@pytest.mark.parametrize(
    "formula",
    [
        lambda n: 7,
        lambda n: 3 * n + 5,
        lambda n: 2 * n * n + n,
        lambda n: -(-n // 8) * 8,
        lambda n: 6 * n * (-(-n // 16) * 16),
        lambda n: 5 * (-(-n // 32) * 32) ** 2,
    ],
)
@pytest.mark.parametrize(("first", "last"), [(66, 93), (67, 92), (63, 130), (5, 300)])
def test_formulas_are_found_from_both_ends(formula: Any, first: int, last: int) -> None:
    points = tuple((n, formula(n)) for n in (first, first + 1, last, last + 1))
    wanted = range(first + 1, last + 1)
    assert through(points, wanted) == {n: formula(n) for n in wanted}


def test_no_formula_is_guessed() -> None:
    with pytest.raises(NoSeries):
        through(((10, 10), (11, 11), (40, 32), (41, 32)), range(11, 41))
    # 128 tokens in steps of 64 or of 128: in between they differ.
    with pytest.raises(NoSeries):
        through(((100, 128), (101, 128), (200, 256), (201, 256)), range(101, 201))
