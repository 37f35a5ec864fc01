"""What a run has between its steps: how often, what a checkpoint writes, what a validation takes.

Parameters of Qwen2.5-0.5B as in ``test_work.py``; the disk is the assumed 1,000 MiB/s.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.__main__ import main
from planner.cost import between_words, cost
from planner.estimate import estimate
from planner.footprint import Footprint, Phase
from planner.plan import Plan
from planner.plan.trainers import able
from planner.sweeps.table import sweep
from planner.throughput import throughput
from planner.trial.run.cadence import trial_flops
from planner.units import MIB

PARAMETERS = 494_032_768
LORA_8 = 24 * 8 * (
    # q, k, v, o; gate, up, down: inputs + outputs of each.
    (896 + 896) + (896 + 128) + (896 + 128) + (896 + 896) + 2 * (896 + 4864) + (4864 + 896)
)
DISK = 1000 * MIB
OFTEN = {"steps": 100, "save_steps": 30, "eval_steps": 40, "validation_responses": 64}


def of(**changes: Any) -> Footprint:
    return estimate(plan(**changes))


def plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "model": "Qwen/Qwen2.5-0.5B", "method": "grpo", "gpus": 4, "prompts_per_step": 16,
        "prompts_per_update": 16, "prompt_tokens": 256, "response_tokens": 512, **OFTEN,
    }  # fmt: skip
    return Plan(**{**usual, **changes})


def phase(footprint: Footprint, name: str) -> Phase:
    (found,) = [one for one in footprint.phases if one.name == name]
    return found


@pytest.mark.parametrize(
    ("changes", "checkpoints", "validations"),
    [
        ({}, 4, 3),  # after steps 30, 60, 90 and the last; 40, 80 and the last
        ({"save_steps": 50, "eval_steps": 50}, 2, 2),
        ({"save_steps": 1000, "eval_steps": 100}, 1, 1),
        # trainer.val_before_train
        ({"framework": "verl"}, 4, 4),
        ({"save_steps": 0, "eval_steps": 0}, 0, 0),
        ({"framework": "verl", "save_steps": 0, "eval_steps": 0}, 0, 0),
    ],
)
def test_a_run_has_them_every_so_many_steps_and_after_the_last(
    changes: dict[str, Any], checkpoints: int, validations: int
) -> None:
    found = of(**changes)
    assert phase(found, "checkpoint").occasions == checkpoints
    assert phase(found, "validation").occasions == validations
    assert not any(one.occasions for one in found.phases if one.per_step)


@pytest.mark.parametrize(
    ("changes", "written_bytes"),
    [
        # fp32 weights by rank 0 of one node, whatever the shards.
        ({}, 4 * PARAMETERS),
        ({"master_dtype": "none", "gradient_dtype": "bf16"}, 2 * PARAMETERS),
        ({"finetuning": "lora", "lora_rank": 8, "reference": "adapter-disabled"}, 4 * LORA_8),
        # transformers' Trainer writes both fp32 moments as well, and FSDP its weights again
        # (_save_optimizer_and_scheduler: save_fsdp_model, of adapters these alone).
        ({"framework": "trl", "eval_steps": 0, "sharding": "ddp"}, 12 * PARAMETERS),
        ({"framework": "trl", "eval_steps": 0}, 16 * PARAMETERS),
        ({"framework": "trl", "eval_steps": 0, "optimizer": "sgd"}, 8 * PARAMETERS),
        ({"framework": "trl", "eval_steps": 0, "optimizer": "adamw-8bit"}, 10 * PARAMETERS),
        # Each of verl's ranks its shards of all three; on two nodes a disk takes half.
        ({"framework": "verl"}, 12 * PARAMETERS),
        ({"framework": "verl", "gpus_per_node": 2}, 6 * PARAMETERS),
        # Every pair of ranks has a whole copy, and each rank writes what it has.
        ({"framework": "verl", "shard_size": 2}, 24 * PARAMETERS),
        # DeepSpeed's moments and fp32 copy are split; the weights of stage 2 are rank 0's, once in
        # the model's files and once in DeepSpeed's; stage 3 has them in the fp32 copy alone.
        (
            {"framework": "trl", "eval_steps": 0, "sharding": "zero2", "gpus_per_node": 2},
            (2 * 2 + 12 / 2) * PARAMETERS,
        ),
        (
            {"framework": "trl", "eval_steps": 0, "sharding": "zero3", "gpus_per_node": 2},
            (2 + 12 / 2) * PARAMETERS,
        ),
    ],
)
def test_a_checkpoint_takes_what_a_nodes_disk_takes(
    changes: dict[str, Any], written_bytes: float
) -> None:
    found = phase(of(**changes), "checkpoint")
    assert found.seconds == pytest.approx(written_bytes / DISK, rel=1e-6)


def test_a_disk_that_somebody_knows_is_as_fast_as_that() -> None:
    assumed, known = of(), of(disk_bytes_per_second=4 * 2**30)
    written = phase(known, "checkpoint")
    assert written.seconds == pytest.approx(4 * PARAMETERS / (4 * 2**30), rel=1e-6)
    assert (written.low_seconds, written.high_seconds) == (written.seconds, written.seconds)
    before = phase(assumed, "checkpoint")
    assert before.seconds and before.low_seconds and before.low_seconds < before.seconds


def test_a_critic_is_written_too() -> None:
    alone = phase(of(framework="verl"), "checkpoint").seconds or 0.0
    both = phase(of(framework="verl", method="ppo", responses_per_prompt=8), "checkpoint").seconds
    # Its head has one output instead of the vocabulary's, and Qwen2.5-0.5B's is tied.
    assert both == pytest.approx(2 * alone, rel=1e-4)


def test_a_validation_of_unknown_size_is_said_and_not_counted() -> None:
    found = of(validation_responses=0)
    assert phase(found, "validation").seconds is None
    assert not phase(found, "validation").occasions
    assert any("set validation_responses" in one for one in found.warnings)
    assert not of().warnings
    given = estimate(Plan(method="sft", gpus=1, eval_steps=40))
    assert not given.warnings and any("eval_steps has no effect" in one for one in given.notes)


def test_a_validation_takes_what_a_rollout_of_its_responses_takes() -> None:
    """As many responses, each to a prompt of its own, of the same length."""
    same: dict[str, Any] = {
        "framework": "verl", "method": "ppo", "prompts_per_step": 64, "responses_per_prompt": 1,
        "prompts_per_update": 64,
    }  # fmt: skip
    found = of(**same)
    assert phase(found, "validation").seconds == pytest.approx(phase(found, "rollout").seconds)
    longer = phase(of(**same, validation_response_tokens=1024), "validation").seconds or 0.0
    assert longer > 1.9 * (phase(found, "validation").seconds or 0.0)


BATCHES: dict[str, Any] = {
    "framework": "trl", "micro_batch_size": 4, "logprob_micro_batch_size": 4,
    "prompts_per_update": 8, "vllm_sleep_level": 2,
}  # fmt: skip


def test_trl_validates_one_micro_batch_after_the_other() -> None:
    """64 responses on 4 GPUs by fours: four batches, where a step's 32 a GPU are eight."""
    found = of(**BATCHES)
    took = phase(found, "validation").seconds
    # Each batch is decoded alone, as a validation of 16 responses is where all are at once;
    together = {"framework": "plain", "framework_version": "1", "validation_responses": 16}
    decoded = phase(of(**{**BATCHES, **together}), "validation").seconds or 0.0
    # the engine has slept since the last one; and old log-probs, a loss and the reference's.
    synced = phase(found, "weight sync").seconds or 0.0
    old, reference = (
        phase(found, f"{name} log-probs").seconds or 0.0 for name in ("old", "reference")
    )
    assert took == pytest.approx(4 * decoded + 4 * synced + 4 / 8 * (2 * old + reference))


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({"vllm_sleep_level": 0}, "weights to vLLM before each batch"),
        ({"rollout": "hf"}, "weights to vLLM before each batch"),
    ],
)
def test_only_an_engine_that_forgot_its_weights_gets_them_again(
    changes: dict[str, Any], gone: str
) -> None:
    slept, awake = (
        {one.name for one in phase(of(**{**BATCHES, **more}), "validation").times or ()}
        for more in ({}, changes)
    )
    assert gone in slept - awake


def test_a_batch_of_a_validation_meets_the_reward_model_too() -> None:
    rules, model = (
        phase(of(**BATCHES, **more), "validation").seconds or 0.0
        for more in ({}, {"reward": "model"})
    )
    scored = phase(of(**BATCHES, reward="model"), "reward").seconds or 0.0
    once = phase(of(**BATCHES), "rollout").times or ()
    waited = sum(one.seconds for one in once if "reward" in one.name)
    assert model - rules == pytest.approx(4 / 8 * scored - waited * 64 / 128)


def test_transformers_validates_as_many_at_once_as_a_step_has() -> None:
    """Memory is planned for a step's responses at once: more of them take their turn."""
    few = phase(of(rollout="hf", responses_per_prompt=4, validation_responses=64), "validation")
    many = phase(of(rollout="hf", responses_per_prompt=4, validation_responses=640), "validation")
    assert many.seconds == pytest.approx(10 * (few.seconds or 0.0))
    assert many.device_bytes == few.device_bytes


def test_lengths_hold_for_validations_up_to_their_own_cap() -> None:
    shaped = {"length_distribution": "1~uniform_1~512", "batch_shape": "padded"}
    at_cap, shorter = (phase(of(**each), "validation").seconds or 0.0 for each in ({}, shaped))
    assert shorter < at_cap
    cut = of(**shaped, response_tokens=256, validation_response_tokens=512)
    assert phase(cut, "validation").seconds == pytest.approx(shorter)


def test_the_run_is_its_steps_and_what_comes_between() -> None:
    found = of(price_per_gpu_hour=2.0)
    checkpoint, validation = (phase(found, name).seconds for name in ("checkpoint", "validation"))
    assert checkpoint and validation and found.step_seconds
    seconds = 100 * found.step_seconds + 4 * checkpoint + 3 * validation
    paid = cost(found)
    assert paid.hours_run == pytest.approx(seconds / 3600)
    assert paid.gpu_hours_run == pytest.approx(4 * seconds / 3600)
    assert paid.usd_run == pytest.approx(8 * seconds / 3600)
    assert paid.usd_per_step == pytest.approx(8 * found.step_seconds / 3600)
    alone = of(price_per_gpu_hour=2.0, save_steps=0, eval_steps=0)
    assert alone.step_seconds == found.step_seconds
    assert cost(alone).hours_run == pytest.approx(found.step_seconds / 36)
    words = between_words(found)
    assert "4 checkpoints of" in words and "3 validations of" in words and "% of the run" in words
    assert between_words(alone) == ""


def test_the_run_is_as_uncertain_as_its_parts() -> None:
    """A disk's interval is wider than a step's, and decides that of a run that saves often."""
    found = of(price_per_gpu_hour=2.0, save_steps=1)
    paid, saved = cost(found), phase(found, "checkpoint")
    assert found.doubt and saved.doubt and saved.doubt.high > 2 * found.doubt.high
    validation = phase(found, "validation")
    for end in ("low", "high"):
        parts = [
            times * (getattr(one, f"{end}_seconds") or 0.0)
            for times, one in ((100, found), (100, saved), (3, validation))
        ]
        hours = sum(parts) / 3600
        assert getattr(paid, f"{end}_hours_run") == pytest.approx(hours)
        assert getattr(paid, f"{end}_gpu_hours_run") == pytest.approx(4 * hours)
        assert getattr(paid, f"{end}_usd_run") == pytest.approx(8 * hours)
        known = throughput(found, paid)
        assert getattr(known["gpu_hours_run"], end) == pytest.approx(4 * hours)
        assert getattr(known["usd_run"], end) == pytest.approx(8 * hours)
    assert "is taken to move 1,000 MiB a second (125 MiB to" in between_words(found)
    known = of(save_steps=1, disk_bytes_per_second=10**9)
    assert "taken to move" not in between_words(known)
    assert "taken to move" not in between_words(of(save_steps=0))


def test_a_cached_references_pass_is_as_uncertain_as_a_step() -> None:
    found = estimate(Plan(method="dpo", reference="cached-logprobs", price_per_gpu_hour=2.0))
    paid, doubt = cost(found), found.doubt
    assert doubt and paid.usd_run and paid.high_usd_run and paid.low_usd_run
    assert paid.high_usd_run / paid.usd_run == pytest.approx(doubt.high)
    assert paid.low_usd_run / paid.usd_run == pytest.approx(doubt.low)


@pytest.mark.parametrize("framework", able("grpo"))
def test_a_sweep_counts_them_row_by_row(framework: str) -> None:
    table = sweep(plan(framework=framework), over={"gpus": [2, 4], "save_steps": [0, 30]})
    for row in table.itertuples():
        own = cost(of(gpus=row.gpus, save_steps=row.save_steps, framework=framework))
        assert row.gpu_hours_run == pytest.approx(own.gpu_hours_run)
        ends = row.low_usd_run, row.usd_run, row.high_usd_run
        assert ends == pytest.approx((own.low_usd_run, own.usd_run, own.high_usd_run))
        assert row.between_seconds > 0


def test_a_trial_runs_steps_and_nothing_between_them() -> None:
    between, alone = plan(rollout="hf"), plan(rollout="hf", save_steps=0, eval_steps=0)
    assert trial_flops(between, 2) == trial_flops(alone, 2) > 0


def test_the_command_line_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "&".join(f"{name}={value}" for name, value in OFTEN.items())
    main(["estimate", f"model=Qwen/Qwen2.5-0.5B&gpus=1&sharding=none&{asked}"])
    assert "Between its steps: 4 checkpoints of" in capsys.readouterr().out
    main(["estimate", f"model=Qwen/Qwen2.5-0.5B&gpus=1&sharding=none&{asked}", "--json"])
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["phases"]}
    assert found["checkpoint"]["occasions"] == 4 and found["checkpoint"]["seconds"] > 0
    assert "nobody said how fast the disk is" in found["checkpoint"]["seconds_error"]
