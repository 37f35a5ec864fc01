"""TRL's own parser and accelerate's own launcher read what is exported."""

import json
from pathlib import Path
from typing import Any

import pytest

from launch.running import COMMON, PATHS, Worker, read_by_trl, run, unpack
from planner.launch.export import export, fitted
from planner.launch.launch import CannotExpress, LaunchFile
from planner.plan import Plan


def _fitting(**fields: Any) -> Plan:
    return fitted(Plan(framework="trl", **fields), "trl")


def _read(worker: Worker, folder: Path, plan: Plan) -> dict[str, Any]:
    reply = read_by_trl(worker, folder, export(plan, "trl"), plan)
    assert "error" not in reply, reply
    return reply


def test_grpo_means_the_planned_batches(trl: Worker, tmp_path: Path) -> None:
    plan = _fitting(
        gpus=8,
        prompts_per_step=64,
        prompts_per_update=16,
        responses_per_prompt=8,
        micro_batch_size=2,
        prompt_tokens=512,
        response_tokens=2048,
        steps=100,
        gpu_memory_utilization=0.35,
    )
    values = _read(trl, tmp_path, plan)["values"]
    assert values["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert values["dataset_name"] == PATHS["DATASET"]
    # 64 prompts x 8 responses are 512 sequences; an update has 128, 16 a GPU, in 8 of 2.
    assert values["per_device_train_batch_size"] == 2
    assert values["gradient_accumulation_steps"] == 8
    assert values["generation_batch_size"] == 512
    assert values["steps_per_generation"] == 32
    assert values["num_generations"] == 8
    assert values["max_steps"] == 400  # four updates a step
    assert values["max_completion_length"] == 2048
    assert values["vllm_max_model_length"] == 2560
    assert values["vllm_gpu_memory_utilization"] == 0.35
    assert values["vllm_mode"] == "colocate" and values["vllm_enable_sleep_mode"] is True
    assert values["reward_funcs"] == ["reward.compute_score"]
    assert values["beta"] == 0.001 and values["entropy_coef"] == 0.0
    assert values["attn_implementation"] == "sdpa"
    assert values["optim"] == "adamw_torch_fused"
    assert values["gradient_checkpointing"] is True
    assert values["use_peft"] is False


def test_rloo_takes_kl_off_the_reward(trl: Worker, tmp_path: Path) -> None:
    plan = _fitting(method="rloo", responses_per_prompt=4, micro_batch_size=2)
    assert plan.kl == "reward"
    values = _read(trl, tmp_path, plan)["values"]
    assert values["num_generations"] == 4 and values["beta"] == 0.001
    assert values["per_device_train_batch_size"] == 2
    assert values["vllm_mode"] == "colocate" and values["vllm_enable_sleep_mode"] is True
    assert values["reward_funcs"] == ["reward.compute_score"]
    assert "entropy_coef" not in values


def test_rloo_without_a_kl_term_loads_no_reference(trl: Worker, tmp_path: Path) -> None:
    values = _read(trl, tmp_path, _fitting(method="rloo", kl="none"))["values"]
    assert values["beta"] == 0.0  # RLOOConfig's own default is 0.05


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # FSDP copies bf16 weights to fp32 by itself; DDP trains what it loads.
        ({"sharding": "fsdp2", "master_dtype": "fp32"}, ("bfloat16", True, False, "bf16")),
        ({"sharding": "ddp", "master_dtype": "fp32"}, ("float32", True, False, "bf16")),
        ({"sharding": "fsdp2", "master_dtype": "none"}, ("bfloat16", False, False, "no")),
        ({"sharding": "ddp", "master_dtype": "none"}, ("bfloat16", False, False, "no")),
        ({"sharding": "ddp", "finetuning": "lora"}, ("bfloat16", True, False, "bf16")),
        ({"dtype": "fp16", "master_dtype": "fp32"}, ("float16", False, True, "fp16")),
        ({"dtype": "fp32", "master_dtype": "none"}, ("float32", False, False, "no")),
    ],
)
def test_precision(
    trl: Worker, tmp_path: Path, fields: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    reply = _read(trl, tmp_path, _fitting(**fields))
    values = reply["values"]
    assert (values["dtype"], values["bf16"], values["fp16"]) == expected[:3]
    assert reply["accelerate"]["mixed_precision"] == expected[3]


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"kl": "none"}, {"beta": 0.0}),
        (
            {"variation": "dapo"},
            {"beta": 0.0, "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28,
             "mask_truncated_completions": True, "importance_sampling_level": "token"},
        ),
        (
            {"variation": "dr-grpo"},
            {"beta": 0.0, "loss_type": "dr_grpo", "scale_rewards": "none"},
        ),
        (
            {"variation": "gspo"},
            {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4,
             "epsilon_high": 4e-4},
        ),
        ({"variation": "cispo"}, {"loss_type": "cispo", "epsilon_high": 5.0}),
        ({"entropy": True}, {"entropy_coef": 0.001}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"optimizer_step": "micro-batch"}, {"gradient_accumulation_steps": 1}),
        ({"attention": "flash"}, {"attn_implementation": "flash_attention_2"}),
        ({"optimizer": "sgd"}, {"optim": "sgd"}),
        ({"optimizer": "adamw-foreach"}, {"optim": "adamw_torch"}),
        ({"optimizer": "adamw-8bit", "sharding": "ddp"}, {"optim": "adamw_bnb_8bit"}),
        ({"optimizer": "paged-adamw-8bit", "sharding": "ddp"}, {"optim": "paged_adamw_8bit"}),
        (
            {"finetuning": "lora", "base_dtype": "fp32"},
            {"dtype": "float32", "bf16": True},
        ),
        ({"optimizer": "adamw-8bit", "sharding": "fsdp2"}, {"optim": "adamw_torch_8bit"}),
        ({"gradient_checkpointing": "none"}, {"gradient_checkpointing": False}),
        ({"rollout": "hf"}, {"use_vllm": False}),
        ({"vllm_sleep_level": 0}, {"vllm_enable_sleep_mode": False}),
        ({"rollout_tensor_parallel": 4}, {"vllm_tensor_parallel_size": 4}),
        ({"empty_cache": "every-step"}, {"torch_empty_cache_steps": 1}),
        ({"reward": "model"}, {"reward_model_name_or_path": "Qwen/Qwen2.5-7B"}),
        (
            {"finetuning": "lora", "lora_rank": 64, "lora_targets": "q_proj,v_proj"},
            {"use_peft": True, "lora_r": 64, "lora_target_modules": ["q_proj", "v_proj"]},
        ),
        (
            {"finetuning": "lora"},
            {"lora_target_modules": "all-linear", "lora_dropout": 0.0},
        ),
        ({"finetuning": "lora", "lora_dropout": 0.05}, {"lora_dropout": 0.05}),
        (
            {"finetuning": "qlora", "sharding": "ddp"},
            {"use_peft": True, "load_in_4bit": True, "use_bnb_nested_quant": True},
        ),
        ({"liger": True}, {"use_liger_kernel": True}),
        ({"steps": 500}, {"max_steps": 500, "save_steps": 500, "save_strategy": "steps"}),
        (
            # Two of TRL's steps are one of the plan's.
            {"steps": 300, "save_steps": 50, "prompts_per_step": 64, "prompts_per_update": 32},
            {"max_steps": 600, "save_steps": 100},
        ),
        (
            {
                "eval_steps": 20, "validation_responses": 960, "micro_batch_size": 4,
                "logprob_micro_batch_size": 4, "prompts_per_step": 64, "prompts_per_update": 32,
            },
            {
                "eval_strategy": "steps", "eval_steps": 40, "per_device_eval_batch_size": 4,
                "num_generations_eval": 1,
            },
        ),
        ({}, {"eval_strategy": "no"}),
    ],
)
def test_settings(
    trl: Worker, tmp_path: Path, fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    values = _read(trl, tmp_path, _fitting(**fields))["values"]
    assert {name: values[name] for name in settings} == settings


def test_sft(trl: Worker, tmp_path: Path) -> None:
    plan = _fitting(
        method="sft",
        batch_shape="packed",
        attention="flash",
        prompt_tokens=512,
        response_tokens=1536,
        prompts_per_step=128,
        micro_batch_size=4,
        gpus=8,
    )
    launch = export(plan, "trl")
    assert {file.name for file in launch.files} == {
        *("launch.sh", "sft.yaml", "accelerate.yaml"),
        *COMMON,
    }
    values = _read(trl, tmp_path, plan)["values"]
    assert values["max_length"] == 2048 and values["packing"] is True
    # 128 rows over 8 GPUs are 16 each, in 4 of 4.
    assert values["per_device_train_batch_size"] == 4
    assert values["gradient_accumulation_steps"] == 4


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"sharding": "fsdp2"}, {"use_fsdp": True, "fsdp_version": 2}),
        ({"offload": "all"}, {"fsdp_offload_params": "true"}),
        ({"reshard_after_forward": False}, {"fsdp_reshard_after_forward": "false"}),
        ({"sharding": "fsdp1"}, {"fsdp_version": 1, "fsdp_sharding_strategy": "FULL_SHARD"}),
        (
            {"sharding": "fsdp1", "reshard_after_forward": False},
            {"fsdp_version": 1, "fsdp_sharding_strategy": "SHARD_GRAD_OP"},
        ),
        ({"sharding": "ddp"}, {"use_fsdp": False, "multi_gpu": True}),
        (
            {"activation_offload": True},
            {
                "fsdp_activation_checkpointing": "true",
                "fsdp_activation_checkpointing_offload": "true",
            },
        ),
        ({"compile": True}, {"dynamo_backend": "inductor"}),
        (
            {"shard_size": 4},
            {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 4},
        ),
        ({"sharding": "zero2"}, {"use_deepspeed": True, "deepspeed_config_file": "deepspeed.json"}),
    ],
)
def test_accelerate(
    trl: Worker, tmp_path: Path, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    plan = _fitting(gpus=8, **fields)
    given = _read(trl, tmp_path, plan)["accelerate"]
    assert given["num_processes"] == 8
    assert {name: _plain(given[name]) for name in expected} == {
        name: _plain(value) for name, value in expected.items()
    }


def _plain(value: Any) -> str:
    return str(value).lower()


def test_deepspeed_file_says_what_the_plan_says() -> None:
    plan = _fitting(
        sharding="zero3",
        offload="optimizer",
        reduce_dtype="fp32",
        gradient_dtype="bf16",
        master_dtype="fp32",
    )
    config = json.loads(export(plan, "trl").text("deepspeed.json"))
    assert config["zero_optimization"]["stage"] == 3
    assert config["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert "offload_param" not in config["zero_optimization"]
    assert config["communication_data_type"] == "fp32"
    assert config["data_types"]["grad_accum_dtype"] == "bf16"
    assert config["bf16"] == {"enabled": True}


def test_hostile_variables_arrive_as_they_are(tmp_path: Path) -> None:
    folder = unpack(export(_fitting(), "trl"), tmp_path)
    name = "a b'c\"d $(touch pwned) `touch pwned`; touch pwned #\n--x \\ é*"
    words = run(folder, **{**PATHS, "DATASET": name, "OUTPUT_DIR": "/tmp/o $(x)/y"})[-1]
    assert words[words.index("--dataset_name") + 1] == name
    assert words[words.index("--output_dir") + 1] == "/tmp/o $(x)/y"
    assert not list(tmp_path.rglob("pwned"))


def test_nodes(trl: Worker, tmp_path: Path) -> None:
    plan = _fitting(gpus=16, gpus_per_node=8)
    reply = _read(trl, tmp_path, plan)
    assert reply["accelerate"]["num_machines"] == 2
    assert reply["accelerate"]["num_processes"] == 16
    variables = {**PATHS, "NODE_RANK": "1", "MASTER_ADDR": "node zero", "MASTER_PORT": "1234"}
    words = run(tmp_path, **variables)[-1]
    assert words[words.index("--machine_rank") + 1] == "1"
    assert words[words.index("--main_process_ip") + 1] == "node zero"
    assert words[words.index("--main_process_port") + 1] == "1234"


def test_a_separate_engine_has_its_own_script_and_gpus(trl: Worker, tmp_path: Path) -> None:
    plan = _fitting(
        gpus=8,
        rollout="vllm-separate",
        rollout_gpus=2,
        rollout_tensor_parallel=2,
        prompts_per_step=48,
        prompts_per_update=48,
        max_num_seqs=100,
        kv_cache_dtype="fp8",
        enforce_eager=True,
        async_scheduling=False,
        rollout_expert_parallel=True,
        gpu_memory_utilization=0.9,
    )
    reply = _read(trl, tmp_path, plan)
    assert reply["values"]["vllm_mode"] == "server"
    assert reply["values"]["vllm_server_host"] == "127.0.0.1"
    assert reply["accelerate"]["num_processes"] == 6
    (words,) = run(tmp_path, "engine.sh")
    assert words[:3] == ["vllm", "serve", "Qwen/Qwen2.5-7B"]
    options = dict(zip(words[3:], words[4:], strict=False))
    assert options["--tensor-parallel-size"] == "2"
    assert options["--max-num-seqs"] == "100"
    assert options["--kv-cache-dtype"] == "fp8"
    assert json.loads(options["--weight-transfer-config"]) == {"backend": "nccl"}
    assert {"--enforce-eager", "--no-async-scheduling", "--enable-expert-parallel"} <= {*words}
    assert "CUDA_VISIBLE_DEVICES=6,7" in export(plan, "trl").text("engine.sh")
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5\n" in export(plan, "trl").text("launch.sh")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kl": "reward"}, "kl"),
        ({"max_tokens_per_micro_batch": 8192}, "max_tokens_per_micro_batch"),
        ({"logits": "chunked"}, "logits"),
        ({"vllm_sleep_level": 1}, "vllm_sleep_level"),
        ({"max_num_seqs": 8}, "max_num_seqs"),
        ({"max_num_batched_tokens": 8192}, "max_num_batched_tokens"),
        ({"expandable_segments": True}, "expandable_segments"),
        ({"offload": "optimizer-between-phases"}, "offload"),
        ({"validation_response_tokens": 9999}, "validation_response_tokens"),
        ({"micro_batch_size": 2, "logprob_micro_batch_size": 4}, "logprob_micro_batch_size"),
        ({"reduce_dtype": "fp32", "sharding": "fsdp2"}, "reduce_dtype"),
        ({"kl": "loss", "reference": "offloaded"}, "reference"),
        ({"batch_shape": "packed"}, "batch_shape"),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype"),
        ({"rollout_quantization": "fp8"}, "rollout_quantization"),
        ({"async_scheduling": False}, "async_scheduling"),
        (
            {"rollout_tensor_parallel": 2, "rollout_expert_parallel": True},
            "rollout_expert_parallel",
        ),
    ],
)
def test_what_trl_cannot_do_is_named(fields: dict[str, Any], named: str) -> None:
    plan = _fitting().changed(framework="plain", framework_version="1", **fields)
    with pytest.raises(CannotExpress) as refused:
        export(plan, "trl")
    assert refused.value.fields == (named,)


def test_an_adapter_of_the_head_would_never_be_trained() -> None:
    plan = _fitting(finetuning="lora").model_copy(update={"lora_targets": "q_proj,lm_head"})
    with pytest.raises(CannotExpress) as refused:
        export(plan, "trl")
    assert refused.value.fields == ("lora_targets",)


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("grpo.yaml", "per_device_train_batchsize: 1\n", "per_device_train_batchsize"),
        ("grpo.yaml", "max_prompt_length: 1\n", "max_prompt_length"),
        ("grpo.yaml", "num_generations: 7\n", "divisible"),
        ("grpo.yaml", "optim: adamw_torch_fussed\n", "adamw_torch_fussed"),
        ("accelerate.yaml", "num_procesess: 1\n", "num_procesess"),
        ("accelerate.yaml", "dynamo_config:\n  dynamo_backand: INDUCTOR\n", "dynamo_backand"),
    ],
)
def test_the_parser_can_fail(
    trl: Worker, tmp_path: Path, file: str, text: str, complaint: str
) -> None:
    plan = _fitting()
    launch = export(plan, "trl")
    broken = tuple(
        LaunchFile(name=one.name, text=one.text + (text if one.name == file else ""))
        for one in launch.files
    )
    launch = type(launch)(
        framework="trl", version=launch.version, files=broken, install="", notes=()
    )
    assert complaint in read_by_trl(trl, tmp_path, launch, plan)["error"]
