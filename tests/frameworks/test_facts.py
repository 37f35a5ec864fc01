"""What folders say of TRL and verl, held against the installed packages' own source."""

from __future__ import annotations

import ast
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from planner.estimate import estimate
from planner.launch.export import in_the_way
from planner.plan import Plan
from planner.plan.frameworks import framework_named
from planner.plan.trainers import trainer_of
from planner.setup.setup import setup_of
from planner.values.framework import Framework

TRL = framework_named("trl")
VERL = framework_named("verl")
DPO = Plan(framework="trl", method="dpo", gpus=1, model="Qwen/Qwen2.5-0.5B")


def source(path: str) -> Path:
    """A file of an installed package, which is not imported."""
    package, _, rest = path.partition("/")
    found = find_spec(package)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / rest


def function(path: str, name: str) -> str:
    """The text of a function or method."""
    text = source(path).read_text("utf-8")
    (node,) = [
        each
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name
    ]
    return ast.get_source_segment(text, node) or ""


@pytest.mark.parametrize("framework", [TRL, VERL], ids=["trl", "verl"])
def test_the_newest_version_is_the_installed_one(framework: Framework) -> None:
    assert framework.versions[0] == version(framework.name)
    assert set(framework.versions) <= set(framework.loss)


def test_trl_has_these_trainers() -> None:
    for method in ("sft", "dpo", "grpo", "rloo", "ppo"):
        exists = source(f"trl/trainer/{method}_trainer.py").exists()
        assert bool(trainer_of(TRL.name, method).missing) != exists, method
    assert trainer_of(TRL.name, "grade").missing


def test_every_trainer_of_trl_has_the_fused_head() -> None:
    for method in ("sft", "dpo", "grpo"):
        assert "add_fused_lm_head(" in source(f"trl/trainer/{method}_trainer.py").read_text("utf-8")
    code = TRL.loss_code(TRL.versions[0])
    for objective in ("cross-entropy", "policy"):
        assert {code.way(objective, asked).path for asked in code.own(objective)} == {"fused"}
    fused = function("trl/trainer/utils.py", "add_fused_lm_head")
    assert "entropy" in fused and code.way("policy", "fused").entropy_of == "forward"


def test_trl_engines_start_with_these_settings() -> None:
    defaults = TRL.defaults({})
    config = source("trl/trainer/grpo_config.py").read_text("utf-8")
    share = re.search(r"vllm_gpu_memory_utilization: float = field\(\s*default=([\d.]+)", config)
    assert share is not None and float(share[1]) == defaults["gpu_memory_utilization"]
    engine = source("trl/generation/vllm_generation.py").read_text("utf-8")
    assert f"max_num_batched_tokens={defaults['max_num_batched_tokens']}" in engine


def test_trl_scores_dpos_reference_inside_its_loss() -> None:
    assert "self.ref_model(" in function("trl/trainer/dpo_trainer.py", "_compute_loss")
    assert trainer_of("trl", "dpo").scores_reference_in_loss


def test_trl_loads_and_shards_its_reference_so() -> None:
    trainer = source("trl/trainer/dpo_trainer.py").read_text("utf-8")
    assert 'ref_model_init_kwargs.setdefault("dtype", self.model.dtype)' in trainer
    assert setup_of(DPO)["reference"].stored == "fp32"
    sharded = function("accelerate/utils/fsdp_utils.py", "fsdp2_prepare_model")
    assert "if param.requires_grad and param.dtype != torch.float32:" in sharded
    assert "param.data = param.data.to(torch.float32)" in sharded
    apart = DPO.changed(sharding="fsdp2", gpus=8)
    assert setup_of(apart)["reference"].stored == "bf16"
    whole = function("trl/models/utils.py", "prepare_fsdp").partition("fsdp_version == 2")[2]
    assert whole.count("fully_shard(") == 1 and "auto_wrap_policy" not in whole
    assert setup_of(apart)["reference"].spread == "whole"


def test_accelerate_gathers_all_that_a_checkpoint_of_fsdp_has_on_rank_0() -> None:
    saved = function("accelerate/utils/fsdp_utils.py", "save_fsdp_optimizer")
    assert "get_optimizer_state_dict(model, optimizer, options=sd_options)" in saved
    assert "FSDP.optim_state_dict(model, optimizer)" in saved
    options = source("accelerate/utils/dataclasses.py").read_text("utf-8")
    assert "FullOptimStateDictConfig(offload_to_cpu=True, rank0_only=True)" in options
    torch = source("torch/distributed/checkpoint/state_dict.py").read_text("utf-8")
    assert "return _maybe_full_or_cpu_state_dict(optim_state_dict, info)" in torch
    flat = function("torch/distributed/fsdp/_optim_utils.py", "_allgather_orig_param_states")
    assert "gathered_tensor = empty_func(flat_param._padded_unsharded_size)" in flat
    model = function("transformers/trainer.py", "save_model")
    assert "state_dict = self.accelerator.get_state_dict(self.model)" in model
    assert TRL.checkpoint == "state"


def test_liger_patches_the_model_that_transformers_trains() -> None:
    for method in ("dpo", "grpo"):
        text = source(f"trl/trainer/{method}_trainer.py").read_text("utf-8")
        assert "apply_liger_kernel(" not in text
    assert "apply_liger_kernel(self.model" in source("transformers/trainer.py").read_text("utf-8")
    models = setup_of(DPO.changed(liger=True))
    assert models["policy"].liger and not models["reference"].liger


def test_verl_starts_with_these_settings() -> None:
    config = source("verl/trainer/config/_generated_ppo_trainer.yaml").read_text("utf-8")
    both = yaml.safe_load(config)["actor_rollout_ref"]
    rollout, actor = both["rollout"], both["actor"]
    defaults = VERL.defaults({})
    for field in ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens"):
        assert rollout[field] == defaults[field]
    assert actor["fsdp_config"]["model_dtype"] == defaults["master_dtype"]
    assert both["model"]["use_remove_padding"] == (defaults["batch_shape"] == "packed")
    bucket = rollout["checkpoint_engine"]["update_weights_bucket_megabytes"]
    assert VERL.sync(Plan(framework="verl")) [1:] == ("bucket", bucket * 2**20)


def test_verl_sends_weights_to_an_engine_apart_through_two_buffers_and_empties_the_cache() -> None:
    path = "verl/checkpoint_engine/nccl_checkpoint_engine.py"
    made = function(path, "prepare")
    for buffer in ("self.send_buf = torch.zeros(self.bucket_size", "self.recv_buf = torch.zeros("):
        assert buffer in made
    assert "torch.cuda.empty_cache()" in function(path, "finalize")
    assert VERL.defaults({"rollout": "vllm-separate"})["empty_cache"] == "between-phases"


def test_verl_validates_and_saves_when_the_plan_says() -> None:
    text = source("verl/trainer/ppo/ray_trainer.py").read_text("utf-8")
    for freq in ("test_freq", "save_freq"):
        assert f"is_last_step or self.global_steps % self.config.trainer.{freq} == 0" in " ".join(
            text.split()
        )
    config = source("verl/trainer/config/_generated_ppo_trainer.yaml").read_text("utf-8")
    settings = yaml.safe_load(config)
    assert settings["trainer"]["val_before_train"] == (VERL.validates == "first")
    for trained in (settings["actor_rollout_ref"]["actor"], settings["critic"]):
        assert "optimizer" in trained["checkpoint"]["save_contents"]
    assert VERL.checkpoint == "shards"


def test_transformers_saves_the_optimizer_and_after_the_last_step() -> None:
    save = function("transformers/trainer.py", "_save_checkpoint")
    assert "if not self.args.save_only_model:" in save and "_save_optimizer" in save
    text = source("transformers/trainer_callback.py").read_text("utf-8")
    ends = text.partition("if state.global_step >= state.max_steps:")[2].partition("return")[0]
    assert "control.should_save = True" in ends
    assert TRL.checkpoint == "state" and TRL.validates != "first"


def test_verl_keeps_a_reference_in_host_ram_and_computes_with_it_there() -> None:
    text = function("verl/workers/engine/fsdp/transformer_impl.py", "_build_fsdp_module")
    for branch in ("CPUOffload(offload_params=True)", "CPUOffloadPolicy(pin_memory=True)"):
        assert branch in text.partition("forward_only")[2]
    assert Plan(framework="verl").reference == "offloaded"
    assert setup_of(Plan(framework="verl", kl="loss"))["reference"].waits == "host, streamed"


def test_verl_computes_an_entropy_beside_old_log_probs() -> None:
    text = function("verl/trainer/ppo/ray_trainer.py", "_compute_old_log_prob")
    assert "calculate_entropy=True" in text
    assert VERL.loss_code("0.9.1").way("policy", "full").entropy_of == "score"


def test_verl_lets_an_engine_with_adapters_sleep_at_level_one() -> None:
    server = "verl/workers/rollout/vllm_rollout/vllm_async_server.py"
    level = function(server, "_resolve_sleep_level").partition("lora_as_adapter")[2]
    assert "return 1" in level
    assert Plan(framework="verl", finetuning="lora").vllm_sleep_level == 1
    assert Plan(framework="verl").vllm_sleep_level == 2


def test_verl_keeps_its_engine_awake_where_nothing_frees_its_cache() -> None:
    server = "verl/workers/rollout/vllm_rollout/vllm_async_server.py"
    text = source(server).read_text("utf-8")
    sleeps = text.partition("    async def sleep(self):\n")[2].partition("await")[0]
    assert "not self.config.free_cache_engine" in sleeps and "return" in sleeps
    sync = function("verl/workers/engine_workers.py", "update_weights")
    assert "resume_weights = self.config.rollout.free_cache_engine\n" in sync
    for finetuning in ("full", "lora"):
        fields = {"framework": "verl", "finetuning": finetuning, "gpus": 8}
        asleep, awake = Plan(**fields), Plan(**fields, vllm_sleep_level=0)
        assert not in_the_way(awake) - in_the_way(asleep)
        backward = [
            next(one for one in estimate(plan).phases if one.name == "policy backward")
            for plan in (asleep, awake)
        ]
        own = [[t for t in one.terms if t.role == "rollout engine"] for one in backward]
        names = {t.name for t in own[1]} - {t.name for t in own[0]}
        assert any("weights" in name for name in names), names
        assert any("KV cache" in name for name in names), names
        share = Plan(**fields).gpu_memory_utilization * 79 * 2**30
        assert backward[1].device_bytes - backward[0].device_bytes > 0.8 * share


def test_the_plain_step_is_the_default_and_no_framework_hides_it() -> None:
    plain = framework_named("plain")
    assert Plan().framework == plain.name and plain.steps_are_ours and not plain.rules
    flags = [name for name in Framework.__slots__ if getattr(plain, name) is True]
    assert flags == ["steps_are_ours"]
