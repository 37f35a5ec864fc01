"""verl 0.9.1, GRPO and PPO: a bash script of hydra overrides for ``verl.trainer.main_ppo``.

An engine on GPUs of its own is launched by ``verl.experimental.one_step_off_policy.main_ppo``.

Keys and defaults were read from the wheel (2026-11-20); a test composes every export
with verl's own configuration and runs verl's own validation on it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from planner.formulas.lora import ALL_LINEAR
from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.estimator import Estimator
from planner.frameworks.verl.limits import obstacles as obstacles
from planner.launch import reward
from planner.launch.launch import Launch, LaunchFile
from planner.launch.script import (
    Expanded,
    chosen,
    command,
    expand,
    given,
    header,
    plain_characters,
    required,
)
from planner.launch.words import (
    ATTENTION,
    TORCH_DTYPE,
    entropy_note,
    full_rows_note,
    kernels,
    lora_targets,
    other_framework_note,
    own_settings,
)
from planner.plan.trainers import trainer_of
from planner.units import read_count

if TYPE_CHECKING:
    from planner.plan.fields import PlanFields as Plan

VERSION = FRAMEWORK.versions[0]
TORCH = "2.11.0"
"""What the wheel's vllm extra pins, with vllm 0.24.0 and transformers 5.9.0."""

KL_COEFFICIENT = 0.001
"""verl's own default for kl_loss_coef and kl_ctrl.kl_coef."""
ENTROPY_COEFFICIENT = 0.001

SCORE = '''

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **unused):
    """verl's reward function: one number; `ground_truth` is the row's reward_model field."""
    return score(solution_str, ground_truth)
'''
"""What verl calls, asking ``score``."""

PROGRAMS = {
    False: "verl.trainer.main_ppo",
    True: "verl.experimental.one_step_off_policy.main_ppo",
}
"""What trains, by whether the engine has GPUs of its own."""
STRATEGY = {"fsdp1": "fsdp", "fsdp2": "fsdp2"}
KERNELS = {"chunked": "torch", "fused": "triton"}
"""Backend of verl's fused kernels, by the logits path."""

_OPTIMIZER = {
    "adamw-fused": ("torch.optim", "AdamW", "{fused:true}"),
    "adamw-foreach": ("torch.optim", "AdamW", "{foreach:true}"),
    "adamw-8bit": ("torchao.optim", "AdamW8bit", None),
    "sgd": ("torch.optim", "SGD", None),
}


def write(plan: Plan, link: str) -> Launch:
    """``launch.sh`` with the overrides, and ``reward.py``."""
    notes = _notes(plan)
    install = _install(plan)
    return Launch(
        framework=FRAMEWORK.name,
        version=VERSION,
        files=(
            LaunchFile(name="launch.sh", text=_script(plan, link, install, notes)),
            reward.reward_file(SCORE, plan.reward),
        ),
        install=install,
        notes=notes,
    )


def _fsdp(plan: Plan, prefix: str) -> dict[str, object]:
    """Sharding, dtypes and offload of one trained model."""
    between = plan.offload.removesuffix("-between-phases") if plan.offload != "all" else ""
    return {
        f"{prefix}.fsdp_size": plan.shard_size or -1,
        f"{prefix}.reshard_after_forward": plan.reshard_after_forward,
        f"{prefix}.model_dtype": _kept(plan),
        # Not in the YAML, but in FSDPEngineConfig: hence the plus.
        f"+{prefix}.mixed_precision.param_dtype": plan.dtype,
        f"+{prefix}.mixed_precision.reduce_dtype": plan.reduce_dtype,
        f"+{prefix}.mixed_precision.buffer_dtype": "fp32",
        f"{prefix}.offload_policy": plan.offload == "all",
        f"{prefix}.param_offload": between in ("parameters", "all"),
        f"{prefix}.optimizer_offload": between in ("optimizer", "all"),
    }


def _kept(plan: Plan) -> str:
    """What weights are kept in; verl keeps a reference as its actor."""
    return str(plan.dtype if plan.master_dtype == "none" else plan.master_dtype)


def _optimizer(plan: Plan, prefix: str) -> dict[str, object]:
    module, name, override = _OPTIMIZER[plan.optimizer]
    return {
        f"{prefix}.optimizer_impl": module,
        f"{prefix}.optimizer": name,
        f"{prefix}.override_optimizer_config": override,
    }


def _model(plan: Plan, prefix: str, name: str) -> dict[str, object]:
    values: dict[str, object] = {
        f"{prefix}.path": name,
        f"+{prefix}.override_config.attn_implementation": ATTENTION[plan.attention],
        f"{prefix}.enable_gradient_checkpointing": plan.gradient_checkpointing == "full",
        f"{prefix}.enable_activation_offload": plan.activation_offload,
        f"{prefix}.use_remove_padding": plan.batch_shape == "packed",
        f"{prefix}.use_liger": plan.liger,
    }
    if plan.finetuning == "lora":
        modules, _ = lora_targets(plan)
        values[f"{prefix}.lora_rank"] = plan.lora_rank
        values[f"{prefix}.target_modules"] = (
            ALL_LINEAR if modules == (ALL_LINEAR,) else f"[{','.join(modules)}]"
        )
    return values


def _actor(plan: Plan) -> dict[str, object]:
    actor, reference = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
    budget = plan.max_tokens_per_micro_batch
    whole = plan.kl != "none" and plan.finetuning == "full"
    return {
        f"{actor}.strategy": STRATEGY[plan.sharding],
        **_fsdp(plan, f"{actor}.fsdp_config"),
        **_optimizer(plan, f"{actor}.optim"),
        f"{actor}.ppo_mini_batch_size": plan.prompts_per_update,
        f"{actor}.use_dynamic_bsz": budget > 0,
        f"{actor}.ppo_micro_batch_size_per_gpu": plan.micro_batch_size,
        f"{actor}.entropy_coeff": ENTROPY_COEFFICIENT if plan.entropy else 0,
        f"{actor}.use_kl_loss": plan.kl == "loss",
        f"{actor}.ppo_max_token_len_per_gpu": budget or None,
        f"{actor}.kl_loss_coef": KL_COEFFICIENT if plan.kl == "loss" else None,
        f"{reference}.fsdp_config.model_dtype": _kept(plan) if whole else None,
        # Unless told, FSDP computes in bf16.
        f"+{reference}.fsdp_config.mixed_precision.param_dtype": (
            plan.dtype if whole and plan.dtype != "bf16" else None
        ),
        f"{reference}.fsdp_config.fsdp_size": plan.shard_size or None if whole else None,
        f"{reference}.fsdp_config.reshard_after_forward": (
            plan.reshard_after_forward if whole else None
        ),
        f"{reference}.log_prob_micro_batch_size_per_gpu": (
            plan.logprob_micro_batch_size if plan.kl != "none" else None
        ),
    }


def _rollout(plan: Plan) -> dict[str, object]:
    rollout = "actor_rollout_ref.rollout"
    cache = plan.kv_cache_dtype
    return {
        f"{rollout}.name": "vllm",
        f"{rollout}.dtype": TORCH_DTYPE[plan.dtype],
        f"{rollout}.n": plan.responses_per_prompt,
        f"{rollout}.temperature": plan.temperature,
        f"{rollout}.tensor_model_parallel_size": plan.rollout_tensor_parallel,
        f"{rollout}.gpu_memory_utilization": plan.gpu_memory_utilization,
        f"{rollout}.max_model_len": plan.prompt_tokens + plan.response_tokens,
        f"{rollout}.max_num_seqs": plan.max_num_seqs,
        f"{rollout}.max_num_batched_tokens": plan.max_num_batched_tokens,
        f"{rollout}.enforce_eager": plan.enforce_eager,
        f"{rollout}.free_cache_engine": not _apart(plan) and plan.vllm_sleep_level > 0,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": plan.logprob_micro_batch_size,
        f"{rollout}.quantization": (
            None if plan.rollout_quantization == "none" else plan.rollout_quantization
        ),
        f"+{rollout}.engine_kwargs.vllm.kv_cache_dtype": None if cache == "auto" else cache,
        # Adapters are synced alone, so the engine has to read the base weights itself.
        f"{rollout}.load_format": "safetensors" if plan.finetuning == "lora" else None,
    }


def _critic(plan: Plan) -> dict[str, object]:
    return {
        "critic.strategy": STRATEGY[plan.sharding],
        **_fsdp(plan, "critic.fsdp"),
        **_optimizer(plan, "critic.optim"),
        **_model(plan, "critic.model", plan.critic_model or plan.model),
        "critic.ppo_micro_batch_size_per_gpu": plan.micro_batch_size,
        "critic.forward_micro_batch_size_per_gpu": plan.logprob_micro_batch_size,
        "critic.ppo_max_token_len_per_gpu": plan.max_tokens_per_micro_batch or None,
    }


def overrides(plan: Plan) -> dict[str, object]:
    """Every hydra override with a value from the plan; those with a path are in the script."""
    model = "actor_rollout_ref.model"
    values: dict[str, object] = {
        "algorithm.adv_estimator": _estimator(plan).name(plan),
        "algorithm.use_kl_in_reward": plan.kl == "reward",
        "data.train_batch_size": plan.prompts_per_step,
        "data.max_prompt_length": plan.prompt_tokens,
        "data.max_response_length": plan.response_tokens,
        "data.filter_overlong_prompts": True,
        **_model(plan, model, plan.model),
        f"{model}.use_fused_kernels": plan.logits in KERNELS,
        **_actor(plan),
        **_rollout(plan),
        "algorithm.kl_ctrl.kl_coef": KL_COEFFICIENT if plan.kl == "reward" else None,
        f"{model}.fused_kernel_options.impl_backend": KERNELS.get(plan.logits),
        **(_critic(plan) if _estimator(plan).critic else {}),
        **_pool(plan, "trainer", plan.gpus - plan.rollout_gpus),
        **(_engine_apart(plan) if _apart(plan) else {}),
        "trainer.total_training_steps": plan.steps,
        "trainer.save_freq": plan.save_steps or None,
        "trainer.test_freq": plan.eval_steps or None,
        "trainer.logger": "[console]",
    }
    return given(values)


def _estimator(plan: Plan) -> Estimator:
    found: Estimator = trainer_of(FRAMEWORK.name, plan.method).export
    return found


def _nodes(plan: Plan) -> int:
    return max(1, int(plan.gpus) // int(plan.gpus_per_node))


def _apart(plan: Plan) -> bool:
    return bool(plan.rollout == "vllm-separate")


def _pool(plan: Plan, side: str, gpus: int) -> dict[str, object]:
    """So many GPUs of one node, or whole nodes."""
    return {
        f"{side}.nnodes": max(1, gpus // plan.gpus_per_node),
        f"{side}.n_gpus_per_node": min(gpus, plan.gpus_per_node),
    }


def _engine_apart(plan: Plan) -> dict[str, object]:
    """What one_step_off_policy has beside the trainer's own configuration."""
    return {
        # Its own is a path below the folder that a program is started in.
        "hydra.searchpath": "[pkg://verl.trainer.config]",
        "actor_rollout_ref.hybrid_engine": False,
        # The engine's log-probs would take the place of the old ones, which the plan computes.
        "algorithm.rollout_correction.bypass_mode": False,
        **_pool(plan, "rollout", plan.rollout_gpus),
    }


def _words(plan: Plan) -> list[str | Expanded]:
    words: list[str | Expanded] = ["python3", "-m", PROGRAMS[_apart(plan)]]
    words += [f"{key}={value}" for key, value in overrides(plan).items()]
    words += [
        expand("data.train_files='", "TRAIN_FILES", "'"),
        expand("data.val_files='", "VAL_FILES", "'"),
        expand("reward.custom_reward_function.path='", "here", f"/{reward.NAME}'"),
        f"reward.custom_reward_function.name={reward.FUNCTION}",
        expand("trainer.default_local_dir='", "OUTPUT_DIR", "'"),
    ]
    return words


_CLUSTER = """\
# Run this on every node: NODE_RANK 0 starts ray and the training, the others join.
export RAY_ADDRESS="$MASTER_ADDR:6379"
if [ "$NODE_RANK" != 0 ]; then
  exec ray start --address="$RAY_ADDRESS" --num-gpus={per_node} --block
fi
ray start --head --port=6379 --num-gpus={per_node}
# Training asks ray for all GPUs at once, so wait until every node has joined.
python3 -c {wait}
"""

_WAIT = (
    "import ray, time; ray.init(address='auto'); "
    "[time.sleep(2) for _ in iter(lambda: ray.cluster_resources().get('GPU', 0) >= {gpus}, True)]"
)


def _script(plan: Plan, link: str, install: str, notes: tuple[str, ...]) -> str:
    nodes = _nodes(plan)
    checks = [
        required("TRAIN_FILES", "the parquet file to train on, in the format of verl"),
        required("VAL_FILES", "the parquet file to validate on"),
    ]
    if nodes > 1:
        checks.append(required("NODE_RANK", f"the number of this node, 0 to {nodes - 1}"))
        checks.append(required("MASTER_ADDR", "the address of node 0"))
    if plan.reward == "remote":
        checks.append(required("REWARD_URL", "the address of the reward service"))
        checks.append("export REWARD_URL")
    parts = [
        header(
            (
                f"verl {VERSION}: {plan.method} of {plan.model} on {read_count(plan.gpus, 'GPU')}.",
                link,
                f"Install: {install}",
                *notes,
            )
        ),
        *checks,
        'here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"',
        'OUTPUT_DIR="${OUTPUT_DIR:-$PWD/output}"',
        plain_characters("TRAIN_FILES", "VAL_FILES", "OUTPUT_DIR", "here"),
    ]
    if nodes > 1:
        parts.append(
            _CLUSTER.format(
                per_node=plan.gpus_per_node, wait=shlex.quote(_WAIT.format(gpus=plan.gpus))
            )
        )
    parts.append(command(_words(plan)))
    return "\n".join(parts) + "\n"


def _install(plan: Plan) -> str:
    words = chosen(
        (not _apart(plan), f"pip install 'verl[vllm,flash-attn-cu130torch211]=={VERSION}'"),
        # Its checkpoint engine sends weights through buffers of cupy's.
        (_apart(plan), f"pip install 'verl[vllm,flash-attn-cu130torch211,cupy-cu130]=={VERSION}'"),
        (plan.optimizer == "adamw-8bit", "torchao==0.16.0"),
        *kernels(plan),
    )
    return " ".join(words)


def _notes(plan: Plan) -> tuple[str, ...]:
    fragmented = "." if plan.expandable_segments else ": fragmentation is at most what was planned."
    return chosen(
        (
            True,
            f"Checked against verl {VERSION}. Its wheel pins torch {TORCH}, vllm 0.24.0 and "
            f"transformers 5.9.0; the plan was estimated for torch {plan.torch_version}.",
        ),
        (True, own_settings(FRAMEWORK)),
        (
            _apart(plan),
            "The engine generates with weights one step old; verl's one_step_off_policy is "
            "experimental.",
        ),
        (
            not _apart(plan),
            f"verl turns expandable segments on after the first weight sync{fragmented}",
        ),
        (
            True,
            "A data set that ends before the planned steps ends the run: verl stops after 30 "
            "epochs.",
        ),
        (
            plan.save_steps == 0,
            "The plan has no checkpoints, and verl writes none unless trainer.save_freq says so.",
        ),
        (
            plan.eval_steps > 0,
            f"A validation was planned with {plan.validation_responses:,} responses: as many as "
            "VAL_FILES has rows, times val_kwargs.n (1).",
        ),
        (
            plan.eval_steps == 0,
            "The plan has no validation; verl validates once, before the first step "
            "(trainer.val_before_train).",
        ),
        (plan.kl != "none", f"The KL coefficient is verl's default, {KL_COEFFICIENT}."),
        entropy_note(plan, ENTROPY_COEFFICIENT),
        full_rows_note(plan),
        other_framework_note(plan, FRAMEWORK),
    )
