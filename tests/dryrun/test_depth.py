"""Repeating a block gives, to the byte, what running every layer gives."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch

from accuracy.tiny import CONFIGS, LLAMA
from evidence import STEPS, Evidence
from planner import catalog
from planner.dryrun.logs.curve import Peak, peaks
from planner.dryrun.logs.depth import Pattern, expand, pattern_of
from planner.dryrun.logs.kinds import layer_kinds, shallow
from planner.dryrun.logs.log import BIRTH, BLOCK, DEATH, OUTSIDE, PHASE, STEP, Log, Made
from planner.dryrun.logs.repeat import Irregular
from planner.dryrun.run.execute import dry_run
from planner.plan import Plan, try_plan
from planner.units import GIB

LAYERS = 14

DEEP: dict[str, dict[str, Any]] = {
    **{
        family: {**CONFIGS[family], "model_type": family, "num_hidden_layers": LAYERS}
        for family in ("llama", "qwen2", "qwen3", "gemma3_text")
    },
    "deepseek_v3": {
        **{key: value for key, value in LLAMA.items() if key != "head_dim"},
        "model_type": "deepseek_v3",
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 4,
        "first_k_dense_replace": 3,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 48,
        "n_group": 2,
        "topk_group": 1,
        "q_lora_rank": 24,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    },
}


def plan_of(family: str, **changes: Any) -> tuple[Plan, dict[str, Any]]:
    config = DEEP[family]
    # No closed form reads DeepSeek's layers; the plan only says how the model is run.
    named = DEEP["llama"] if family == "deepseek_v3" else config
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config(named),
        "gpus": 1,
        "rollout": "hf",
        "prompts_per_step": 4,
        "responses_per_prompt": 2,
        "prompt_tokens": 24,
        "response_tokens": 40,
        "attention": "eager",
        **changes,
    }
    if values.get("method") in ("sft", "ppo"):
        values["responses_per_prompt"] = 1
    if values.get("method") == "sft":
        values["rollout"] = "none"
    plan, problems = try_plan(values)
    assert plan is not None, problems
    return plan, config


def of(plan: Plan, config: dict[str, Any], *, full_depth: bool) -> tuple[list[Peak], Log]:
    torch.set_num_threads(1)
    configs = dict.fromkeys(("policy", "critic", "reward"), config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = dry_run(plan, configs, full_depth=full_depth)
    return peaks(log), log


def random_plans(count: int) -> list[tuple[str, dict[str, Any]]]:
    chance = random.Random(3)
    found = []
    while len(found) < count:
        sharded = chance.random() < 0.35
        lora = chance.random() < 0.3
        changes: dict[str, Any] = {
            "method": chance.choice(("sft", "grpo", "ppo", "intuitor")),
            "finetuning": "lora" if lora else "full",
            "gradient_checkpointing": chance.choice(("none", "full")),
            "micro_batch_size": chance.choice((1, 2)),
            "batch_shape": chance.choice(("full", "padded")),
            "optimizer": chance.choice(("adamw-fused", "adamw-foreach", "sgd")),
            "logits": chance.choice(("full", "response", "chunked", "fused")),
            "offload": chance.choice(("none", "optimizer-between-phases", "all-between-phases")),
        }
        if sharded:
            changes |= {"gpus": 4, "sharding": "fsdp2", "prompts_per_step": 16}
        elif chance.random() < 0.6:
            changes["master_dtype"] = "none"
        found.append((chance.choice(("llama", "qwen2", "qwen3", "gemma3_text")), changes))
    return found


RANDOM = random_plans(20)


def named(family: str, changes: dict[str, Any]) -> str:
    return f"{family}-{'-'.join(map(str, changes.values()))}"


EVIDENCE = Evidence(
    "dry-run-depth",
    of=("planner.dryrun.run.execute", "planner.dryrun.logs.curve", "accuracy.tiny", *STEPS),
    kinds={named(family, changes): changes["method"] for family, changes in RANDOM},
)


def figures(found: list[Peak]) -> list[Any]:
    """Bytes of every phase, those of the host, and whose they are."""
    return [
        [one.phase, one.total_bytes, one.host_bytes, sorted([*k, v] for k, v in one.shares.items())]
        for one in found
    ]


@pytest.mark.parametrize(
    ("family", "changes"), RANDOM, ids=[named(family, changes) for family, changes in RANDOM]
)
def test_random_plans_to_the_byte(family: str, changes: dict[str, Any]) -> None:
    plan, config = plan_of(family, **changes)

    def compute() -> dict[str, Any]:
        short, log = of(plan, config, full_depth=False)
        whole, _ = of(plan, config, full_depth=True)
        notes = [note for note in log.notes if "full depth" in note]
        return {"repeated": figures(short), "whole": figures(whole), "not repeated": notes}

    found = EVIDENCE.figures(named(family, changes), [plan.model_dump(), config], compute)
    assert found["repeated"] == found["whole"]
    assert not found["not repeated"]


def test_buffers_of_layers_are_repeated_with_them() -> None:
    """The scales of 4-bit weights are buffers, which come back from the host after the weights."""
    plan, config = plan_of(
        "llama",
        method="grpo",
        finetuning="qlora",
        master_dtype="none",
        kl="none",
        rollout="vllm-colocated",
        offload="all-between-phases",
    )
    short, _ = of(plan, config, full_depth=False)
    whole, _ = of(plan, config, full_depth=True)
    assert [peak.total_bytes for peak in short] == [peak.total_bytes for peak in whole]


def test_dense_layers_before_the_experts() -> None:
    plan, config = plan_of("deepseek_v3", method="sft", master_dtype="none")
    short, log = of(plan, config, full_depth=False)
    whole, _ = of(plan, config, full_depth=True)
    assert not any("full depth" in note for note in log.notes)
    assert [peak.total_bytes for peak in short] == [peak.total_bytes for peak in whole]


def test_the_peak_that_moves_with_depth() -> None:
    """Qwen2.5-7B, 1 x 4096, checkpointed, AdamW foreach in bf16: memory facts 1.12.

    Extrapolating each phase's peak gives 51.55 GiB for the backward. The instant that is the peak
    moves to the embedding's gradient; the storages counted at full depth give 56.77 (not 57.93:
    docs/memory-notes.md).
    """
    plan = Plan(
        model="Qwen/Qwen2.5-7B",
        method="sft",
        gpus=1,
        master_dtype="none",
        prompts_per_step=2,
        prompt_tokens=2048,
        response_tokens=2048,
        batch_shape="full",
        optimizer="adamw-foreach",
        logits="full",
    )
    one = plan.changed(prompts_per_step=1, prompts_per_update=1)
    from planner.dryrun.ask.request import configs_of

    config = configs_of(one)["policy"]
    found = {peak.phase: peak.requested_bytes for peak in of(one, config, full_depth=False)[0]}
    assert found["policy backward"] / GIB == pytest.approx(56.77, abs=0.005)
    assert found["optimizer step"] / GIB == pytest.approx(70.93, abs=0.005)


def test_patterns() -> None:
    same = pattern_of(["a"] * 28)
    assert (same.lead, same.period, same.shallow, same.copies) == (0, 1, 5, 23)
    lead = pattern_of(["d"] * 3 + ["e"] * 58)
    assert (lead.lead, lead.period, lead.shallow, lead.copies) == (3, 1, 8, 53)
    sliding = pattern_of(["s", "s", "f"] * 10 + ["s"])
    assert (sliding.lead, sliding.period, sliding.shallow, sliding.copies) == (0, 3, 16, 5)
    short = pattern_of(["a"] * 4)
    assert (short.shallow, short.copies) == (4, 0)


def test_kinds_of_layers_come_from_the_config() -> None:
    config = {
        "num_hidden_layers": 4,
        "layer_types": ["s", "f", "s", "f"],
        "first_k_dense_replace": 1,
        "mlp_only_layers": [3],
    }
    kinds = layer_kinds(config)
    assert len(set(kinds)) == 4
    assert shallow(config, 2)["layer_types"] == ["s", "f"]
    assert shallow(config, 2)["num_hidden_layers"] == 2
    assert shallow(config, 2)["mlp_only_layers"] == []


def log_of(layers: int, *, last: int = 8) -> Log:
    """Each layer keeps 10 bytes in a forward, which the way back frees; ``last`` is the last's."""
    log = Log()

    def made(key: int, size: int) -> tuple[int, int, int]:
        log.made[key] = Made(size, "op", "", "policy", "activations", (size,), "int8")
        return (BIRTH, key, size)

    log.events.append((STEP, 0, 0))
    log.events.append((PHASE, log.name("forward"), 1))
    for layer in range(layers):
        size = last if layer == layers - 1 else 10
        log.events += [(BLOCK, layer, 0), made(layer, size), (BLOCK, OUTSIDE, 0)]
    log.events.append((PHASE, log.name("forward"), 0))
    for layer in reversed(range(layers)):
        log.events += [(BLOCK, layer, 0), (DEATH, layer, log.made[layer].size_bytes)]
    log.events.append((BLOCK, OUTSIDE, 0))
    return log


def test_a_log_by_hand() -> None:
    whole = expand(log_of(5), Pattern(9, 0, 1))
    # Eight layers of 10 bytes and the last one's 8.
    assert peaks(whole)[0].requested_bytes == 88
    births = [key for kind, key, _ in whole.events if kind == BIRTH]
    deaths = [key for kind, key, _ in whole.events if kind == DEATH]
    assert deaths == births[::-1]


def test_layers_that_differ_are_not_repeated() -> None:
    log = log_of(5)
    at = log.events.index((BIRTH, 3, 10))
    log.events.insert(at, (BIRTH, 99, 7))
    log.made[99] = log.made[3]._replace(size_bytes=7)
    with pytest.raises(Irregular):
        expand(log, Pattern(9, 0, 1))
