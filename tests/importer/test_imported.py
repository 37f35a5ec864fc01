"""Texts of a run become a plan: what a person would type of them, typed here by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import pytest

from planner.importer.imported import MOST_TEXTS, answered, imported
from planner.importer.rewriting import patch, rewritten
from planner.plan import try_plan
from planner.plan.facts import facts_of

VERL = """#!/bin/bash
set -xeuo pipefail
MODEL=Qwen/Qwen2.5-7B-Instruct
n=${N:-8}
# as many as a card takes
micro=32

python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=$HOME/data/train.parquet \\
    data.train_batch_size=256 \\
    data.max_prompt_length=$((1024 / 2)) \\
    data.max_response_length=1024 \\
    actor_rollout_ref.model.path=$MODEL \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$micro \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=$micro \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.n=$n \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    trainer.experiment_name=mine \\
    trainer.n_gpus_per_node=4 \\
    trainer.nnodes=2 $@
"""
VERL_PLAN = {
    "framework": "verl",
    "method": "grpo",
    "model": "Qwen/Qwen2.5-7B-Instruct",
    "prompts_per_step": 256,
    "prompts_per_update": 64,
    "responses_per_prompt": 8,
    "prompt_tokens": 512,
    "response_tokens": 1024,
    "micro_batch_size": 32,
    "rollout_tensor_parallel": 2,
    "gpu_memory_utilization": 0.6,
    "gpus": 8,
    "gpus_per_node": 4,
    # verl's own defaults at 0.9.1
    "sharding": "fsdp1",
    "master_dtype": "fp32",
    "gradient_checkpointing": "full",
    "kl": "none",
}
TRL = {
    "run.sh": "accelerate launch --config_file fsdp.yaml -m trl.scripts.grpo --config grpo.yaml\n",
    "fsdp.yaml": (
        "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"
    ),
    "grpo.yaml": (
        "# mine\nmodel_name_or_path: Qwen/Qwen2.5-1.5B\nper_device_train_batch_size: 4\n"
        "num_generations: 8\ngradient_accumulation_steps: 4  # keep\n"
        "max_completion_length: 512\nlearning_rate: 1.0e-6\noutput_dir: out\n"
    ),
}
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
    "capacity of 79.11 GiB of which 1.10 GiB is free."
)
ALL_SAID = {"gpu": "h100-80gb", "steps": 100, "validation_responses": 0}


def test_verls_script() -> None:
    found = imported({"run.sh": VERL}, ALL_SAID)
    assert found.plan is not None
    assert {name: getattr(found.plan, name) for name in VERL_PLAN} == VERL_PLAN
    rests = {one.name for entry in found.reading.open for one in entry.opens}
    assert {"N", "HOME"} <= rests
    (n,) = (one for one in found.reading.open if one.name.endswith("rollout.n"))
    assert (n.value, n.opens[0].default) == (8, "8")
    assert [one.name for one in found.reading.no_effect] == ["trainer.experiment_name"]
    assert not found.reading.unknown


def test_trls_command_with_its_two_files() -> None:
    found = imported(TRL, {"gpu": "a100-80gb", "prompt_tokens": 512, "steps": 10})
    assert found.plan is not None
    plan = found.plan
    assert (plan.framework, plan.method, plan.model) == ("trl", "grpo", "Qwen/Qwen2.5-1.5B")
    assert (plan.gpus, plan.sharding, plan.micro_batch_size) == (4, "fsdp2", 4)
    # 4 sequences × 4 steps × 4 processes, in groups of 8
    assert (plan.prompts_per_step, plan.responses_per_prompt) == (8, 8)
    assert plan.response_tokens == 512


@pytest.mark.parametrize(
    ("texts", "framework"),
    [
        ({"grpo.yaml": TRL["grpo.yaml"]}, "trl"),
        ({"train.py": "from trl import GRPOConfig, GRPOTrainer\na = GRPOConfig(output_dir='x', "
          "num_generations=8)\nt = GRPOTrainer(model='Qwen/Qwen2.5-1.5B', args=a)\n"}, "trl"),
        ({"": "algorithm.adv_estimator=grpo\ndata.train_batch_size=64 \\\n"
          "actor_rollout_ref.rollout.name=vllm\n"}, "verl"),
    ],
)  # fmt: skip
def test_a_configuration_alone(texts: Mapping[str, str], framework: str) -> None:
    found = imported(texts)
    assert found.framework == framework
    assert found.reading.understood


def test_overrides_alone_say_where_they_stand() -> None:
    text = "data.train_batch_size=64\n# mine\ndata.max_response_length=2048\n"
    found = imported({"mine": f"{text}actor_rollout_ref.rollout.name=vllm\n"})
    places = {one.name: one.place for one in found.reading.understood}
    place = places["data.max_response_length"]
    assert place is not None
    assert (place.line, text[place.start : place.end]) == (3, "2048")


def test_without_a_model_there_is_no_plan() -> None:
    found = imported({"run.sh": VERL.replace("Qwen/Qwen2.5-7B-Instruct", "/data/mine-17b")})
    assert found.plan is None
    assert "model" in found.asks
    said = imported(found.texts, {"model": "Qwen/Qwen2.5-1.5B"})
    assert said.plan is not None
    assert "model" not in said.asks


FOLDER = """accelerate launch --num_processes 1 -m trl.scripts.sft \\
    --model_name_or_path ./outputs/merged --max_length 64 --per_device_train_batch_size 1
"""


def test_a_model_in_a_folder_of_one_s_own_is_asked_for_or_its_config_taken() -> None:
    found = imported({"train.sh": FOLDER})
    assert found.plan is None and "model" in found.asks
    config = json.dumps({
        "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "vocab_size": 1000,
        "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4,
        "max_position_embeddings": 512, "tie_word_embeddings": False,
    })  # fmt: skip
    whole = imported({"train.sh": FOLDER, "config.json": config})
    assert whole.plan is not None and "model" not in whole.asks
    assert facts_of(whole.plan).policy.hidden == 512
    again = imported({"train.sh": FOLDER, "config.json": config}, {"model": "Qwen/Qwen3-4B"})
    assert again.plan is not None and not again.plan.config  # what a person says goes first
    bad = imported({"train.sh": FOLDER, "config.json": config.replace("512", "-1", 1)})
    assert bad.plan is None and any("hidden_size" in note for note in bad.notes)


def test_what_is_not_planned_leaves_the_answer_incomplete() -> None:
    script = VERL.replace("rollout.name=vllm", "rollout.name=sglang")
    found = imported({"run.sh": script}, ALL_SAID)
    verdict = answered(found).verdict
    assert verdict.incomplete
    assert not answered(imported({"run.sh": VERL}, ALL_SAID)).verdict.incomplete


def test_a_name_that_nobody_knows_leaves_the_answer_incomplete() -> None:
    script = VERL.rstrip() + " +data.max_obs_length=500 +max_turns=2\n"
    found = imported({"run.sh": script}, ALL_SAID)
    assert [one.name for one in found.reading.unknown] == ["data.max_obs_length", "max_turns"]
    answer = answered(found)
    both = "“data.max_obs_length” 500 and “max_turns” 2 are left out"
    assert answer.verdict.incomplete and answer.verdict.sentence == f"Incomplete. {both}."
    assert answer.assumptions[0].startswith(f"{both}: verl 0.9.1 knows no such setting, so which ")
    assert answer.device_bytes == answered(imported({"run.sh": VERL}, ALL_SAID)).device_bytes


def test_another_trainer_is_named_and_judged_by_nobody() -> None:
    found = imported({"run.sh": "deepspeed --module openrlhf.cli.train_ppo_ray --actor.x 3\n"})
    assert (found.trainer, found.plan, found.framework) == ("OpenRLHF", None, "")
    assert "--actor.x" in [one.name for one in found.reading.unknown]


def test_a_server_that_is_started_first_is_not_what_trains() -> None:
    server = "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model Qwen/Qwen3-0.6B &\n"
    train = "trl grpo --model_name_or_path Qwen/Qwen3-0.6B --use_vllm True --vllm_mode server"
    found = imported({"run.sh": server + train})
    assert found.launch and found.launch.program == "trl grpo"
    assert found.reading.plan["rollout"] == "vllm-separate"


OWN_PARSER = """import argparse
from trl import GRPOConfig, GRPOTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--policy", default="Qwen/Qwen3-0.6B")
parser.add_argument("--responses", type=int, default=8)
parser.add_argument("--longest", type=int, default=256)
parser.add_argument("--utilization", type=float)
parser.add_argument("--max_steps", type=int, default=9)
args = parser.parse_args()
GRPOTrainer(model=args.policy, args=GRPOConfig(num_generations=args.responses, use_vllm=True,
    max_completion_length=args.longest, vllm_gpu_memory_utilization=args.utilization or 0.25))
"""


def test_a_script_with_a_parser_of_its_own() -> None:
    run = "python train.py --responses 4 --max_steps 7"
    found = imported({"run.sh": run, "train.py": OWN_PARSER})
    fields = ("model", "responses_per_prompt", "response_tokens", "gpu_memory_utilization")
    assert [found.reading.plan[name] for name in fields] == ["Qwen/Qwen3-0.6B", 4, 256, 0.25]
    # TRL is told of no steps, whatever the script calls so.
    assert "steps" in found.asks
    assert [one.name for one in found.reading.unknown] == ["--max_steps"]
    assert not found.left_out, "its source says that it is the script's own"
    found = imported({"run.sh": f"{run} --utilization 0.5", "train.py": OWN_PARSER})
    assert found.reading.plan["gpu_memory_utilization"] == 0.5


BY_DATACLASSES = """import torch
from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser, get_peft_config
script_args, training_args, model_args = TrlParser(
    (ScriptArguments, GRPOConfig, ModelConfig)).parse_args_and_config()
dtype = model_args.dtype if model_args.dtype == "auto" else getattr(torch, model_args.dtype)
training_args.model_init_kwargs = dict(
    dtype=dtype, attn_implementation=model_args.attn_implementation)
trainer = {}(model=model_args.model_name_or_path, args=training_args,
    train_dataset=load_dataset(script_args.dataset_name), peft_config=get_peft_config(model_args))
"""


def test_a_script_that_trls_own_parser_reads_the_command_for() -> None:
    run = (
        "accelerate launch --num_processes 2 mine.py --model_name_or_path Qwen/Qwen3-0.6B "
        "--dtype bfloat16 --num_generations 4 --report_to trackio --num_train_epochs 1"
    )
    found = imported({"run.sh": run, "mine.py": BY_DATACLASSES.format("GRPOTrainer")})
    fields = ("method", "model", "gpus", "responses_per_prompt")
    assert [found.reading.plan[name] for name in fields] == ["grpo", "Qwen/Qwen3-0.6B", 2, 4]
    assert not found.reading.unknown and not [one for one in found.reading.beyond if one.given]
    asked = {one.name for one in found.reading.open if one.asked}
    assert asked == {"gpu", "max_steps", "vllm_max_model_length"}
    other = imported({"run.sh": run, "mine.py": BY_DATACLASSES.format("BCOTrainer")})
    assert other.plan is None and "BCOTrainer is not planned" in other.notes[0]


def test_a_launcher_s_file_alone_asks_for_its_script() -> None:
    found = imported({"fsdp.yaml": TRL["fsdp.yaml"]})
    assert found.plan is None
    assert found.notes == (
        "This is accelerate's part of a run. Give the script that starts it as well.",
    )


def test_a_message_under_the_script() -> None:
    found = imported({"run.sh": VERL, "printed": OOM}, ALL_SAID)
    assert found.plan is not None
    (error,) = found.errors
    assert (error.gpu, error.sizes["asked"].bytes) == (3, 2 * 2**30)
    assert imported({"printed": OOM}).understood
    assert not imported({"printed": "hello"}).understood


def test_another_plan_changes_the_lines_that_say_it_and_no_others() -> None:
    found = imported({"run.sh": VERL}, ALL_SAID)
    assert found.plan is not None
    smaller = {"micro_batch_size": 8, "logprob_micro_batch_size": 8}
    changes = {**smaller, "offload": "all-between-phases"}
    after, problems = try_plan({**found.plan.model_dump(), **changes})
    assert after is not None, problems
    back = rewritten(found, after)
    assert imported(back.texts, ALL_SAID).plan == after
    assert back.notes == ()
    lines = [line for line in patch(found, back).splitlines() if line[:1] in "+-"][2:]
    assert "-micro=32" in lines
    assert "+micro=8" in lines
    # The last argument goes on over a further line, in front of what a caller adds.
    removed = [line for line in lines if line.startswith("-")]
    assert removed == ["-micro=32", "-    trainer.nnodes=2 $@"]
    assert lines[-1].endswith(" $@")


def test_comments_of_a_yaml_stay() -> None:
    said = {"gpu": "a100-80gb", "prompt_tokens": 512, "steps": 10}
    found = imported(TRL, said)
    assert found.plan is not None
    changes = {"micro_batch_size": 2, "logprob_micro_batch_size": 2}
    after, problems = try_plan({**found.plan.model_dump(), **changes})
    assert after is not None, problems
    back = rewritten(found, after)
    assert imported(back.texts, said).plan == after
    text = back.texts["grpo.yaml"]
    assert text.startswith("# mine\n")
    assert "gradient_accumulation_steps: 8  # keep\n" in text
    assert back.texts["fsdp.yaml"] == TRL["fsdp.yaml"]


def test_an_entry_of_a_mapping_is_changed_where_it_stands() -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer\n"
        'loading = {"attn_implementation": "sdpa", "dtype": "bfloat16"}\n'
        "args = GRPOConfig(model_init_kwargs=loading, num_generations=8)\n"
        'trainer = GRPOTrainer(model="Qwen/Qwen2.5-7B", args=args)\n'
    )
    found = imported({"train.py": script}, {"gpu": "h100-80gb", "gpus": 1})
    assert found.plan is not None and found.plan.attention == "sdpa"
    back = rewritten(found, found.plan.changed(attention="flash"))
    assert back.texts["train.py"] == script.replace('"sdpa"', '"flash_attention_2"')
    assert back.plan.attention == "flash" and back.notes == ()


def test_a_further_setting_goes_into_the_call_that_takes_it() -> None:
    """Not into the last one, which a trainer's own is."""
    script = (
        "from trl import GRPOConfig, GRPOTrainer\n"
        "a = GRPOConfig(output_dir='x', num_generations=8, max_completion_length=64)\n"
        "t = GRPOTrainer(model='Qwen/Qwen2.5-1.5B', args=a)\n"
    )
    said = {"gpu": "a100-80gb", "prompt_tokens": 64, "steps": 10}
    found = imported({"train.py": script}, said)
    assert found.plan is not None
    after, problems = try_plan({**found.plan.model_dump(), "gradient_checkpointing": "none"})
    assert after is not None, problems
    back = rewritten(found, after)
    assert imported(back.texts, said).plan == after
    assert "max_completion_length=64, gradient_checkpointing=False)" in back.texts["train.py"]


PARTS = (
    *("python3 -m verl.trainer.main_ppo ", "$((", "${", "}", '"', "'", "\n", "<<EOF\n", "EOF\n"),
    *("a.b=1 ", "model: x\n", "- ", "{", "[", "&a *a ", "GRPOConfig(", ")", "\\", "\0", "é", "`"),
    *("$(rm -rf /)", "CUDA out of memory. Tried to allocate ", "for i in 1 2; do ", "done\n"),
)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_pasted_is_answered(seed: int) -> None:
    drawn = random.Random(seed)
    text = "".join(drawn.choices(PARTS, k=drawn.randint(1, 60)))
    for name in ("", "a.sh", "a.yaml", "a.json", "a.py", "a.log"):
        found = imported({name: text})
        assert found.texts[name] == text


def test_too_many_texts_are_said() -> None:
    found = imported({f"{number}.log": "x" for number in range(MOST_TEXTS + 1)})
    assert len(found.texts) == MOST_TEXTS
    assert any(str(MOST_TEXTS) in note for note in found.notes)


def test_a_method_that_is_not_planned_gets_no_plan_of_another() -> None:
    found = imported({"run.sh": VERL.replace("=grpo", "=optimal_token_baseline")}, ALL_SAID)
    assert found.plan is None and "method" in found.asks
    named = [one for one in found.reading.beyond if "method" in one.fields]
    assert [one.value for one in named] == ["optimal_token_baseline"]
    answered_by_hand = imported(found.texts, {**ALL_SAID, "method": "grpo"})
    assert answered_by_hand.plan is not None and answered_by_hand.left_out
