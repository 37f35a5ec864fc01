"""verl's own composition and validation read what is exported."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from launch.running import PATHS, Worker, read_by_verl, run, unpack
from planner.frameworks.verl.overrides import overrides
from planner.launch.export import export, fitted, why_not
from planner.launch.launch import CannotExpress
from planner.plan import Plan


def _fitting(**fields: Any) -> Plan:
    return fitted(Plan(framework="verl", **fields), "verl")


def _read(worker: Worker, folder: Path, plan: Plan) -> dict[str, Any]:
    reply = read_by_verl(worker, folder, export(plan, "verl"))
    assert "error" not in reply, reply
    return reply


def _at(values: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        values = values[part]
    return values


ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
REF = "actor_rollout_ref.ref"


def test_grpo_means_the_planned_batches(verl: Worker, tmp_path: Path) -> None:
    plan = _fitting(
        gpus=8,
        prompts_per_step=64,
        prompts_per_update=16,
        responses_per_prompt=8,
        micro_batch_size=2,
        logprob_micro_batch_size=4,
        prompt_tokens=512,
        response_tokens=2048,
        rollout_tensor_parallel=2,
        max_num_seqs=128,
        steps=100,
    )
    reply = _read(verl, tmp_path, plan)
    assert reply["reference"] is True and reply["critic"] is False
    expected = {
        "algorithm.adv_estimator": "grpo",
        "data.train_batch_size": 64,
        "data.max_prompt_length": 512,
        "data.max_response_length": 2048,
        "data.train_files": PATHS["TRAIN_FILES"],
        "data.val_files": PATHS["VAL_FILES"],
        "reward.custom_reward_function.path": str(tmp_path / "reward.py"),
        "reward.custom_reward_function.name": "compute_score",
        f"{ACTOR}.ppo_mini_batch_size": 16,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": 2,
        f"{ACTOR}.use_dynamic_bsz": False,
        f"{ACTOR}.strategy": "fsdp2",
        f"{ACTOR}.fsdp_config.model_dtype": "fp32",
        f"{ACTOR}.fsdp_config.mixed_precision": {
            "param_dtype": "bf16",
            "reduce_dtype": "fp32",
            "buffer_dtype": "fp32",
        },
        f"{ACTOR}.use_kl_loss": True,
        f"{REF}.log_prob_micro_batch_size_per_gpu": 4,
        f"{REF}.fsdp_config.model_dtype": "fp32",
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.n": 8,
        f"{ROLLOUT}.tensor_model_parallel_size": 2,
        f"{ROLLOUT}.max_model_len": 2560,
        f"{ROLLOUT}.max_num_seqs": 128,
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 4,
        f"{MODEL}.use_remove_padding": True,
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": 8,
        "trainer.total_training_steps": 100,
        "trainer.logger": ["console"],
    }
    assert {key: _at(reply["values"], key) for key in expected} == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kl": "none"}, {f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": False}),
        ({"kl": "reward"}, {f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": True}),
        ({"entropy": True}, {f"{ACTOR}.entropy_coeff": 0.001}),
        ({"sharding": "fsdp1"}, {f"{ACTOR}.strategy": "fsdp"}),
        ({"shard_size": 4}, {f"{ACTOR}.fsdp_config.fsdp_size": 4}),
        ({"shard_size": 4}, {f"{REF}.fsdp_config.fsdp_size": 4}),
        ({"offload": "all"}, {f"{ACTOR}.fsdp_config.offload_policy": True}),
        (
            {"offload": "all-between-phases"},
            {
                f"{ACTOR}.fsdp_config.param_offload": True,
                f"{ACTOR}.fsdp_config.optimizer_offload": True,
                f"{ACTOR}.fsdp_config.offload_policy": False,
            },
        ),
        (
            {"offload": "optimizer-between-phases"},
            {
                f"{ACTOR}.fsdp_config.param_offload": False,
                f"{ACTOR}.fsdp_config.optimizer_offload": True,
            },
        ),
        ({"master_dtype": "none"}, {f"{ACTOR}.fsdp_config.model_dtype": "bf16"}),
        (
            {"max_tokens_per_micro_batch": 8192},
            {f"{ACTOR}.use_dynamic_bsz": True, f"{ACTOR}.ppo_max_token_len_per_gpu": 8192},
        ),
        (
            {"logits": "chunked", "model": "Qwen/Qwen2.5-1.5B"},
            {
                f"{MODEL}.use_fused_kernels": True,
                f"{MODEL}.fused_kernel_options.impl_backend": "torch",
            },
        ),
        ({"logits": "full"}, {f"{MODEL}.use_fused_kernels": False}),
        ({"batch_shape": "padded"}, {f"{MODEL}.use_remove_padding": False}),
        (
            {"attention": "flash"},
            {f"{MODEL}.override_config.attn_implementation": "flash_attention_2"},
        ),
        ({"kv_cache_dtype": "fp8"}, {f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype": "fp8"}),
        ({"enforce_eager": True}, {f"{ROLLOUT}.enforce_eager": True}),
        ({"rollout_quantization": "fp8"}, {f"{ROLLOUT}.quantization": "fp8"}),
        ({}, {f"{ROLLOUT}.quantization": None}),
        (
            {"async_scheduling": False},
            {f"{ROLLOUT}.engine_kwargs.vllm": {"async_scheduling": False}},
        ),
        ({}, {f"{ROLLOUT}.engine_kwargs.vllm": {}, f"{ROLLOUT}.expert_parallel_size": 1}),
        (
            {"rollout_tensor_parallel": 4, "rollout_expert_parallel": True},
            {f"{ROLLOUT}.expert_parallel_size": 4},
        ),
        (
            {"sync_bucket_bytes": 512 * 2**20},
            {f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": 512},
        ),
        (
            {"attention": "flash_attention_3"},
            {f"{MODEL}.override_config.attn_implementation": "flash_attention_3"},
        ),
        (
            {"save_steps": 50, "eval_steps": 20, "validation_responses": 960},
            {"trainer.save_freq": 50, "trainer.test_freq": 20, "trainer.val_before_train": True},
        ),
        ({}, {"trainer.save_freq": -1, "trainer.test_freq": -1}),
        ({"activation_offload": True}, {f"{MODEL}.enable_activation_offload": True}),
        (
            {"optimizer": "adamw-8bit"},
            {
                f"{ACTOR}.optim.optimizer_impl": "torchao.optim",
                f"{ACTOR}.optim.optimizer": "AdamW8bit",
            },
        ),
        (
            {"finetuning": "lora", "lora_rank": 64, "lora_targets": "q_proj,v_proj"},
            {
                f"{MODEL}.lora_rank": 64,
                f"{MODEL}.target_modules": ["q_proj", "v_proj"],
                f"{ROLLOUT}.load_format": "safetensors",
                f"{ACTOR}.fsdp_config.model_dtype": "bf16",
            },
        ),
        ({"finetuning": "lora"}, {f"{MODEL}.target_modules": "all-linear"}),
        (
            {"variation": "dapo"},
            {
                f"{ACTOR}.clip_ratio_low": 0.2,
                f"{ACTOR}.clip_ratio_high": 0.28,
                f"{ACTOR}.clip_ratio_c": 10.0,
                f"{ACTOR}.loss_agg_mode": "token-mean",
                f"{ACTOR}.use_kl_loss": False,
            },
        ),
        (
            {"variation": "dr-grpo"},
            {
                "algorithm.norm_adv_by_std_in_grpo": False,
                f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm",
            },
        ),
        (
            {"variation": "gspo"},
            {
                f"{ACTOR}.policy_loss.loss_mode": "gspo",
                f"{ACTOR}.clip_ratio_high": 0.0004,
                f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean",
            },
        ),
        (
            {"variation": "cispo"},
            {f"{ACTOR}.policy_loss.loss_mode": "cispo", f"{ACTOR}.clip_ratio_high": 4.0},
        ),
    ],
)
def test_settings(
    verl: Worker, tmp_path: Path, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    values = _read(verl, tmp_path, _fitting(**fields))["values"]
    assert {key: _at(values, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("fields", "estimator"),
    [
        ({"method": "rloo"}, "rloo"),
        ({"method": "reinforce++"}, "reinforce_plus_plus"),
        (
            {"method": "reinforce++", "reinforce_baseline": "group"},
            "reinforce_plus_plus_baseline",
        ),
    ],
    ids=str,
)
def test_methods_without_a_critic_have_their_estimator(
    verl: Worker, tmp_path: Path, fields: dict[str, Any], estimator: str
) -> None:
    reply = _read(verl, tmp_path, _fitting(responses_per_prompt=4, **fields))
    values = reply["values"]
    assert reply["critic"] is False and reply["reference"] is True
    assert _at(values, "algorithm.adv_estimator") == estimator
    assert _at(values, "algorithm.use_kl_in_reward") is True
    assert _at(values, "actor_rollout_ref.actor.use_kl_loss") is False
    assert _at(values, "actor_rollout_ref.rollout.n") == 4


def test_ppo_has_a_critic_of_its_own(verl: Worker, tmp_path: Path) -> None:
    plan = _fitting(
        method="ppo",
        critic_model="Qwen/Qwen2.5-1.5B",
        responses_per_prompt=1,
        micro_batch_size=2,
        prompts_per_step=64,
        max_tokens_per_micro_batch=16_384,
        offload="optimizer-between-phases",
    )
    reply = _read(verl, tmp_path, plan)
    assert reply["critic"] is True
    values = reply["values"]
    assert _at(values, "algorithm.adv_estimator") == "gae"
    assert _at(values, "algorithm.use_kl_in_reward") is True
    assert _at(values, "critic.model.path") == "Qwen/Qwen2.5-1.5B"
    assert _at(values, f"{MODEL}.path") == "Qwen/Qwen2.5-7B"
    assert _at(values, "critic.ppo_micro_batch_size_per_gpu") == 2
    assert _at(values, "critic.ppo_max_token_len_per_gpu") == 16_384
    # What verl's trainer gives the critic's engine, and what the engine has of its own.
    assert _at(values, "critic.ppo_infer_max_token_len_per_gpu") == 16_384
    assert _at(values, "critic.fsdp.use_dynamic_bsz") is True
    assert _at(values, "critic.fsdp.micro_batch_size_per_gpu") == 2
    assert _at(values, "critic.fsdp.optimizer_offload") is True


@pytest.mark.parametrize(
    ("fields", "trainer", "engine"),
    [
        ({"gpus": 8, "rollout_gpus": 2}, (1, 6), (1, 2)),
        ({"gpus": 8, "rollout_gpus": 4, "rollout_tensor_parallel": 2}, (1, 4), (1, 4)),
        ({"gpus": 32, "rollout_gpus": 8}, (3, 8), (1, 8)),
    ],
)
def test_an_engine_apart_is_one_step_off_with_gpus_of_its_own(
    verl: Worker,
    tmp_path: Path,
    fields: dict[str, Any],
    trainer: tuple[int, int],
    engine: tuple[int, int],
) -> None:
    plan = _fitting(
        rollout="vllm-separate", prompts_per_step=96, prompts_per_update=96, **fields
    )
    assert plan.rollout_overlap == "one-step-off" and plan.empty_cache == "between-phases"
    values = _read(verl, tmp_path, plan)["values"]
    found = {
        side: (_at(values, f"{side}.nnodes"), _at(values, f"{side}.n_gpus_per_node"))
        for side in ("trainer", "rollout", ROLLOUT)
    }
    assert found == {"trainer": trainer, "rollout": engine, ROLLOUT: engine}
    expected = {
        "actor_rollout_ref.hybrid_engine": False,
        f"{ROLLOUT}.free_cache_engine": False,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.checkpoint_engine.backend": "nccl",
        f"{ROLLOUT}.tensor_model_parallel_size": plan.rollout_tensor_parallel,
        # The plan has a phase of old log-probs.
        "algorithm.rollout_correction.bypass_mode": False,
    }
    assert {key: _at(values, key) for key in expected} == expected
    assert "cupy-cu130" in export(plan, "verl").install


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"rollout_overlap": "asynchronous"}, "rollout_overlap"),
        ({"gpus": 32, "rollout_gpus": 12, "prompts_per_step": 80, "prompts_per_update": 80},
         "rollout_gpus"),
        ({"rollout_gpus": 4, "rollout_tensor_parallel": 4, "gpus_per_node": 2},
         "rollout_tensor_parallel"),
    ],
)  # fmt: skip
def test_an_engine_apart_that_verl_cannot_start_is_named(
    fields: dict[str, Any], named: str
) -> None:
    apart = {"rollout": "vllm-separate", "prompts_per_step": 96, "prompts_per_update": 96}
    plan = _fitting().changed(
        **{"rollout_gpus": 2, "rollout_overlap": "one-step-off", **apart, **fields}
    )
    with pytest.raises(CannotExpress) as refused:
        export(plan, "verl")
    assert named in refused.value.fields


def test_nodes_start_ray_and_one_of_them_the_training(verl: Worker, tmp_path: Path) -> None:
    plan = _fitting(gpus=16, gpus_per_node=8)
    values = _read(verl, tmp_path, plan)["values"]
    assert _at(values, "trainer.nnodes") == 2 and _at(values, "trainer.n_gpus_per_node") == 8
    head, train = run(tmp_path, **{**PATHS, "NODE_RANK": "0"})
    assert head == ["ray", "start", "--head", "--port=6379", "--num-gpus=8"]
    assert train[2] == "verl.trainer.main_ppo"
    joined = run(tmp_path, **{**PATHS, "NODE_RANK": "1"})
    assert joined == [["ray", "start", "--address=10.0.0.1:6379", "--num-gpus=8", "--block"]]
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, **{name: value for name, value in PATHS.items() if name != "NODE_RANK"})


@pytest.mark.parametrize(
    "path", ["/a b", "/a'b", "/${oc.env:HOME}", "/a;b", "/$(x)", "/a\nb", "[a]"]
)
def test_paths_that_hydra_would_interpret_are_refused(tmp_path: Path, path: str) -> None:
    folder = unpack(export(_fitting(), "verl"), tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        run(folder, **{**PATHS, "TRAIN_FILES": path})
    assert stopped.value.returncode == 2
    assert (folder / "record").read_bytes() == b""


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"logits": "response"}, "logits"),
        ({"logits": "full", "logits_dtype": "fp32"}, "logits_dtype"),
        ({"reference": "copy"}, "reference"),
        ({"reward": "model"}, "reward"),
        ({"compile": True}, "compile"),
        ({"vllm_sleep_level": 1}, "vllm_sleep_level"),
        ({"empty_cache": "never"}, "empty_cache"),
        ({"sharding": "zero3"}, "sharding"),
        ({"validation_response_tokens": 9999}, "validation_response_tokens"),
        ({"rollout": "hf"}, "rollout"),
        ({"gpus": 8, "gpus_per_node": 2, "rollout_tensor_parallel": 4}, "rollout_tensor_parallel"),
    ],
)
def test_what_verl_cannot_do_is_named(fields: dict[str, Any], named: str) -> None:
    plan = _fitting(kl="loss").changed(framework="plain", framework_version="1", **fields)
    with pytest.raises(CannotExpress) as refused:
        export(plan, "verl")
    assert refused.value.fields == (named,)


def test_dropout_of_adapters_is_refused() -> None:
    plan = _fitting(finetuning="lora")
    assert why_not(plan, "verl") == ()
    with pytest.raises(CannotExpress) as refused:
        export(plan.changed(lora_dropout=0.1), "verl")
    assert refused.value.fields == ("lora_dropout",)


def test_adapters_in_a_critic_are_refused() -> None:
    """peft asks every model under ``TaskType.CAUSAL_LM`` how it generates; a critic does not."""
    plan = Plan(framework="verl", method="ppo", responses_per_prompt=1, finetuning="lora")
    [why] = [sentence for sentence in why_not(plan, "verl") if "finetuning" in sentence]
    assert "peft refuses them" in why and "Set finetuning to full" in why
    whole = fitted(plan, "verl")
    assert (whole.finetuning, why_not(whole, "verl")) == ("full", ())
    alone = _fitting(finetuning="lora")
    assert alone.finetuning == "lora" and why_not(alone, "verl") == ()


def test_a_critic_that_verl_cannot_make_is_refused() -> None:
    """verl asks for a token classifier; transformers 5.23 has none of OLMo 2."""
    plan = Plan(
        framework="verl", method="ppo", responses_per_prompt=1, model="allenai/OLMo-2-1124-7B"
    )
    [why] = [sentence for sentence in why_not(plan, "verl") if "token classifier" in sentence]
    assert "none of olmo2" in why and "critic_model" in why
    with pytest.raises(CannotExpress) as refused:
        export(plan, "verl")
    assert "model" in refused.value.fields
    other = plan.changed(critic_model="meta-llama/Llama-3.2-1B")
    assert not [sentence for sentence in why_not(other, "verl") if "token classifier" in sentence]
    assert not why_not(_fitting(model="allenai/OLMo-2-1124-7B"), "verl")


@pytest.mark.parametrize(
    ("update", "named"),
    [
        ({"gpu_memory_utilization": 1.4}, "gpu_memory_utilization"),
        ({"rollout_tensor_parallel": 3}, "rollout_tensor_parallel"),
        ({"max_tokens_per_micro_batch": 100}, "max_tokens_per_micro_batch"),
        ({"micro_batch_size": 3}, "micro_batch_size"),
        ({"prompts_per_update": 48}, "prompts_per_update"),
    ],
)
def test_what_verl_would_accept_and_fail_on_is_refused(
    verl: Worker, update: dict[str, Any], named: str
) -> None:
    """The plan refuses these too; a script must not depend on that."""
    plan = _fitting().model_copy(update=update)
    with pytest.raises(CannotExpress) as refused:
        export(plan, "verl")
    assert refused.value.fields == (named,)


def test_a_plan_of_ours_gets_a_batch_that_divides_over_verls_gpus(
    verl: Worker, tmp_path: Path
) -> None:
    """Our own step fills up what is missing of a rest; verl's configuration stops."""
    ours = Plan(method="grpo", gpus=24, prompts_per_step=8, responses_per_prompt=2)
    with pytest.raises(CannotExpress) as refused:
        export(ours, "verl")
    assert "prompts_per_update" in refused.value.fields
    nearest = fitted(ours, "verl")
    assert (nearest.prompts_per_step, nearest.prompts_per_update) == (12, 12)
    _read(verl, tmp_path, nearest)


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("actor_rollout_ref.actor.ppo_mini_batchsize=8", "ppo_mini_batchsize"),
        ("critic.model.fsdp_config.param_offload=True", "fsdp_config"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=999999", "must be >="),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=null", "micro_batch_size"),
        ("trainer.n_gpus_per_node=7", "divisible"),
        ("algorithm.adv_estimator=intuitor", "intuitor"),
        ("actor_rollout_ref.rollout.mode=sync", "removed"),
        ("+actor_rollout_ref.actor.fsdp_config.mixed_precison.param_dtype=bf16", "mixed_precison"),
    ],
)
def test_the_validation_can_fail(verl: Worker, override: str, complaint: str) -> None:
    given = [f"{key}={value}" for key, value in overrides(_fitting()).items()]
    asked = {"program": "verl.trainer.main_ppo", "overrides": given}
    assert "error" not in verl.ask(asked)
    reply = verl.ask({**asked, "overrides": [*given, override]})
    assert complaint in reply.get("error", "accepted")
