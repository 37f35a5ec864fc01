"""A person's files with another plan: read again they say it, and nothing else has changed."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from planner.importer.imported import imported
from planner.importer.rewriting import Rewritten, rewritten
from round_trips import drawn, mended


@pytest.mark.parametrize(("framework", "few"), [("verl", 8), ("trl", 8), ("hf_trainer", 8)])
def test_files_with_the_smallest_change_that_fits_say_that_plan(framework: str, few: int) -> None:
    """A few by lot; ``round_trips FRAMEWORK COUNT --mended`` does as many as it is told."""
    told = (mended(plan) for plan in drawn(framework, 20 * few, 11))
    found = [*islice((one for one in told if one is not None), few)]
    assert len(found) == few and not any(found), found


def changed(texts: dict[str, str], **fields: object) -> Rewritten:
    found = imported(texts, {"gpu": "h100-80gb"})
    assert found.plan is not None, found.notes
    new = rewritten(found, found.plan.changed(**fields))
    assert not new.notes, new.notes
    return new


VERL = """set -x
ROWS=8
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    data.train_batch_size=64 data.max_prompt_length=512 data.max_response_length=$((1024 * 2)) \\
    actor_rollout_ref.model.path=Qwen/Qwen3-4B \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$ROWS \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=$ROWS \\
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=$ROWS \\
    actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.name=vllm \\
    trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.total_training_steps=10
"""


def test_a_variable_that_another_setting_rests_on_stays() -> None:
    new = changed({"run.sh": VERL}, micro_batch_size=2)
    text = new.texts["run.sh"]
    assert new.plan.micro_batch_size == 2 and new.plan.logprob_micro_batch_size == 8
    assert "ROWS=8\n" in text
    assert text.rstrip().endswith("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2")


def test_a_variable_whose_settings_all_change_is_changed_itself() -> None:
    new = changed({"run.sh": VERL}, micro_batch_size=2, logprob_micro_batch_size=2)
    assert new.texts["run.sh"] == VERL.replace("ROWS=8", "ROWS=2")


def test_a_value_that_is_computed_is_given_anew_behind_it() -> None:
    new = changed({"run.sh": VERL}, response_tokens=1024, validation_response_tokens=1024)
    assert new.texts["run.sh"].count("data.max_response_length=1024") == 1
    assert "$((1024 * 2))" in new.texts["run.sh"]


ACCELERATE = """accelerate launch --num_processes 4 {options} -m trl.scripts.sft {words} \\
    --model_name_or_path Qwen/Qwen3-4B --max_length 1024 --per_device_train_batch_size 1 \\
    --max_steps 10
"""
FSDP = """# ours
distributed_type: FSDP
num_processes: 4
fsdp_config:
  fsdp_version: 2   # per parameter
"""


def test_what_a_launcher_s_file_lacks_goes_into_its_own_section() -> None:
    script = ACCELERATE.format(options="--config_file fsdp.yaml", words="")
    new = changed({"run.sh": script, "fsdp.yaml": FSDP}, offload="all")
    assert new.plan.offload == "all" and new.texts["run.sh"] == script
    assert new.texts["fsdp.yaml"] == FSDP + "  fsdp_offload_params: true\n"


def test_what_deepspeed_s_file_lacks_is_nested_there() -> None:
    script = ACCELERATE.format(options="", words="--deepspeed ds.json")
    config = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}
    text = json.dumps(config, indent=2)
    new = changed({"run.sh": script, "ds.json": text}, offload="all")
    assert new.plan.offload == "all" and new.texts["run.sh"] == script
    said = json.loads(new.texts["ds.json"])
    assert said["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert said["zero_optimization"]["stage"] == 3 and said["bf16"] == config["bf16"]


def test_without_a_file_the_launcher_is_told() -> None:
    script = ACCELERATE.format(options="", words="")
    new = changed({"run.sh": script}, sharding="fsdp2")
    assert new.plan.sharding == "fsdp2"
    launcher, _, program = new.texts["run.sh"].partition(" -m ")
    assert "--use_fsdp" in launcher and "--fsdp_version 2" in launcher
    assert program.startswith(script.partition(" -m ")[2].rstrip())


PYTHON = """from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out",
    max_length=1024,
    per_device_train_batch_size=4,
)
trainer = SFTTrainer("Qwen/Qwen3-4B", args=args)
trainer.train()
"""


def test_what_a_script_lacks_goes_into_the_call_that_takes_it() -> None:
    new = changed({"train.py": PYTHON}, optimizer="adamw-8bit")
    assert new.plan.optimizer == "adamw-8bit"
    before, _, after = new.texts["train.py"].partition(",\n)\n")
    assert before.endswith('optim="adamw_bnb_8bit"') and after == PYTHON.partition(",\n)\n")[2]


SERVED = """trl vllm-serve --model Qwen/Qwen3-4B --tensor-parallel-size 1 \\
    --gpu-memory-utilization 0.4 --max-num-seqs 64 --max-model-len 768 &
accelerate launch --num_processes 4 -m trl.scripts.grpo --model_name_or_path Qwen/Qwen3-4B \\
    --use_vllm true --vllm_mode server --max_completion_length 512 --max_steps 10
"""


def test_a_server_s_own_options_are_changed_where_they_stand() -> None:
    new = changed({"run.sh": SERVED}, gpu_memory_utilization=0.7)
    assert new.texts["run.sh"] == SERVED.replace("utilization 0.4", "utilization 0.7")


def test_an_option_that_stands_for_its_value_is_said_again_behind_it() -> None:
    script = ACCELERATE.format(options="", words="--gradient_checkpointing")
    new = changed({"run.sh": script}, gradient_checkpointing="none")
    assert new.plan.gradient_checkpointing == "none"
    assert new.texts["run.sh"].startswith(script.rstrip())
    assert new.texts["run.sh"].rstrip().endswith("--gradient_checkpointing False")


def test_a_list_of_words_is_given_again_as_a_whole() -> None:
    words = "--use_peft --lora_target_modules q_proj v_proj"
    script = ACCELERATE.format(options="", words=words)
    new = changed({"run.sh": script}, lora_targets="q_proj,k_proj")
    assert new.plan.lora_targets == "q_proj,k_proj"
    assert new.texts["run.sh"].rstrip().endswith("--lora_target_modules q_proj k_proj")
