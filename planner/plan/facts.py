"""What the catalog knows about the names in a plan: its models, its card, its budget.

:func:`facts_of` is cached, since a sweep and a page ask again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from planner import catalog
from planner.catalog import Gpu, Model
from planner.catalog.architecture import EXPERTS, Architecture
from planner.numeric import Num
from planner.plan.fields import PlanFields as Plan
from planner.plan.frameworks import framework_named
from planner.problem import Problem
from planner.rule import NOT_YET
from planner.speeds import Speeds
from planner.values.model_setup import Config
from planner.values.sharding import sharding_of

KNOWN_TORCH = ("2.13.0",)
"""PyTorch versions whose allocator and workspaces are known."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The catalog's rows behind a plan. ``budget_bytes`` is what one GPU can hold."""

    policy: Architecture
    critic: Architecture
    reward: Architecture
    policy_model: Model
    critic_model: Model
    reward_model: Model
    gpu: Gpu
    budget_bytes: int

    @property
    def served(self) -> Architecture:
        """What an engine serves: the whole policy, however trainers divide its layers."""
        return self.policy_model.architecture or self.policy

    @property
    def models(self) -> dict[Config, Model]:
        """Whose config a model of the run has."""
        policy, critic, reward = self.policy_model, self.critic_model, self.reward_model
        return {"policy": policy, "critic": critic, "reward": reward}


def facts_of(plan: Plan, speeds: Speeds | None = None) -> Facts:
    """Facts of a plan; ``ValueError`` with the field and the fix when a name is unknown.

    ``speeds`` are a benchmark's shares of the card's peaks, used where the plan has that card.
    """
    facts = _facts(
        plan.model, plan.config, plan.critic_model, plan.reward_model, plan.gpu, plan.gpu_bytes
    )
    if speeds is None or speeds.gpu != plan.gpu:
        return facts
    return replace(facts, gpu=facts.gpu.with_speeds(speeds))


def obstacle(speeds: Speeds, plan: Plan) -> str:
    """Why a benchmark does not hold for a plan, naming the field; empty when it does."""
    for field, wanted, own in (
        ("gpu", speeds.gpu, plan.gpu),
        ("torch_version", _release(speeds.torch), _release(plan.torch_version)),
    ):
        if wanted != own:
            return (
                f"{field}: the benchmark is of {wanted}, and the plan has {own}; its times are "
                "those of published runs."
            )
    return ""


def holding(speeds: Speeds | None, plan: Plan) -> Speeds | None:
    """The benchmark where it holds for a plan; None where it does not, or there is none."""
    return speeds if speeds is not None and not obstacle(speeds, plan) else None


def _release(version: str) -> str:
    return version.partition("+")[0]


@lru_cache(maxsize=1024)
def _facts(
    model: str, config: str, critic_model: str, reward_model: str, gpu: str, gpu_bytes: int
) -> Facts:
    policy_model = _model("model", model, config)
    policy = _architecture("config" if config else "model", policy_model)
    card = _card(gpu, gpu_bytes)
    critic = _model("critic_model", critic_model, "") if critic_model else policy_model
    scorer = _model("reward_model", reward_model, "") if reward_model else policy_model
    return Facts(
        policy=policy,
        critic=_architecture("critic_model", critic),
        reward=_architecture("reward_model", scorer),
        policy_model=policy_model,
        critic_model=critic,
        reward_model=scorer,
        gpu=card,
        budget_bytes=card.require_budget_bytes(),
    )


def _model(field: str, name: str, config: str) -> Model:
    try:
        return (
            catalog.parse_config(catalog.decode_config(config)) if config else catalog.model(name)
        )
    except ValueError as error:
        text = str(error)
        prefix = "config" if config else field
        raise ValueError(text if text.startswith(f"{prefix}: ") else f"{prefix}: {text}") from None


def _architecture(field: str, model: Model) -> Architecture:
    if model.architecture is None:
        raise ValueError(f"{field}: {model.id} cannot be planned: {model.unsupported_reason}.")
    return model.architecture


def _card(gpu: str, gpu_bytes: int) -> Gpu:
    if gpu == "custom":
        if not gpu_bytes:
            raise ValueError("gpu_bytes: a custom card needs its usable bytes; set gpu_bytes.")
        return catalog.custom_gpu(gpu_bytes)
    return catalog.gpu(gpu).with_budget(gpu_bytes) if gpu_bytes else catalog.gpu(gpu)


def fact_problems(plan: Plan) -> list[Problem]:
    """Names and versions of a plan that nobody knows."""
    found: list[Problem] = []
    try:
        facts = facts_of(plan)
    except ValueError as error:
        field, _, text = str(error).partition(": ")
        known = field.isidentifier() and hasattr(plan, field)
        found.append(Problem(field if known else "model", text if known else str(error), ""))
    else:
        found.extend(_shape_problems(plan, facts))
    if plan.torch_version not in KNOWN_TORCH:
        found.append(
            Problem(
                "torch_version",
                f"torch_version {plan.torch_version} is not known.",
                f"Choose one of {', '.join(KNOWN_TORCH)}.",
            )
        )
    versions = framework_named(plan.framework).versions
    if plan.framework_version not in versions:
        found.append(
            Problem(
                "framework_version",
                f"framework_version {plan.framework_version} of {plan.framework} is not known.",
                f"Choose one of {', '.join(versions)}.",
            )
        )
    return found


def _without_fp8(gpu: Gpu) -> bool:
    """Whether the card is one of the catalog, which has no peak in fp8 for it."""
    return gpu.compute_capability is not None and gpu.fp8_flops_per_second is None


def _is_hopper(gpu: Gpu) -> bool:
    """Whether the card is known to be one of compute capability 9."""
    return (gpu.compute_capability or "").startswith("9.")


def _shape_problems(plan: Plan, facts: Facts) -> Iterator[Problem]:
    rows, policy, served = plan.prompt_tokens + plan.response_tokens, facts.policy, facts.served
    engine, over = plan.rollout.startswith("vllm"), plan.rollout_tensor_parallel
    whole = " set rollout_expert_parallel to true," if served.experts else ""
    short = next(
        (model for model in (policy, facts.critic) if beyond_positions(plan, model)), None
    )
    for field, wrong, words, fix in (
        (
            "response_tokens",
            short,
            f"The {'model' if short is policy else 'critic_model'} has "
            f"{short and short.learned_positions} learned positions, fewer than prompt_tokens + "
            f"response_tokens = {rows}.",
            "Lower prompt_tokens or response_tokens.",
        ),
        (
            "rollout",
            plan.rollout != "none" and policy.uncounted_cache,
            f"The memory that {policy.family} keeps while it generates is not known: "
            f"{policy.uncounted_cache}.",
            "Set rollout to none, and plan generation separately.",
        ),
        (
            "attention",
            plan.attention == "flash_attention_3" and not _is_hopper(facts.gpu),
            f"FlashAttention-3 needs a Hopper GPU, and {facts.gpu.name} is not one.",
            "Set attention to flash or sdpa.",
        ),
        (
            "rollout_quantization",
            engine and plan.rollout_quantization == "fp8" and _without_fp8(facts.gpu),
            f"{facts.gpu.name} has no fp8 tensor cores: an engine computes in 16 bits with "
            "8-bit weights there, which is not modelled yet.",
            "Set rollout_quantization to none.",
        ),
        (
            "rollout_tensor_parallel",
            uneven_heads(plan, served),
            f"The engine cannot split {served.heads} attention heads over {over} GPUs.",
            "Choose a divisor of the number of heads.",
        ),
        (
            "rollout_tensor_parallel",
            not uneven_heads(plan, served) and uneven_blocks(plan, served),
            f"vLLM's fp8 weights are scaled in blocks of {FP8_BLOCK}, and one of the {over} GPUs "
            "would hold part of one.",
            f"Lower rollout_tensor_parallel,{whole} or set rollout_quantization to none.",
        ),
    ):
        if wrong:
            yield Problem(field, words, fix)
    if plan.finetuning != "full":
        yield from _of_experts(plan, facts)


def beyond_positions(plan: Plan, model: Architecture) -> Num:
    """Whether rows are longer than a model has learned positions; of a plan or a sweep's grid."""
    if not model.learned_positions:
        return False
    return plan.prompt_tokens + plan.response_tokens > model.learned_positions


def uneven_heads(plan: Plan, policy: Architecture) -> Num:
    """Whether an engine cannot split the attention heads; of a plan or a sweep's grid."""
    if not plan.rollout.startswith("vllm"):
        return False
    return policy.heads % plan.rollout_tensor_parallel != 0


FP8_BLOCK = 128
"""Width of the blocks of weights that verl has vLLM quantise (vllm_async_server.py)."""


def uneven_blocks(plan: Plan, policy: Architecture) -> bool:
    """Whether an engine's GPUs would hold parts of blocks of fp8 weights.

    vLLM refuses them as it starts (validate_fp8_block_shape, read at 0.20; issues 17569 and 25292).
    """
    if not plan.rollout.startswith("vllm") or plan.rollout_quantization != "fp8":
        return False
    over = plan.rollout_tensor_parallel
    # A GPU has one head of keys and values at least, the same as others where there are too few.
    widths = [policy.heads * policy.head_dim, max(policy.kv_heads, over) * policy.head_dim]
    if policy.sparse_layers < policy.layers:
        widths.append(policy.intermediate)
    if policy.experts and not plan.rollout_expert_parallel:
        widths.append(policy.expert_intermediate)
    return over > 1 and any(width % (over * FP8_BLOCK) for width in widths)


def shape_broken(plan: Plan, facts: Facts) -> Num:
    """Where sizes of a sweep's grid do not suit its models."""
    beyond = beyond_positions(plan, facts.policy) | beyond_positions(plan, facts.critic)
    return beyond | uneven_heads(plan, facts.served)


def adapts_experts(targets: tuple[str, ...], architecture: Architecture) -> bool:
    """Whether a model's experts get adapters."""
    return bool(architecture.experts) and any(target in EXPERTS for target in targets)


def _of_experts(plan: Plan, facts: Facts) -> Iterator[Problem]:
    """What peft's adapters of whole tensors of experts cannot, or nobody derived."""
    if not adapts_experts(tuple(plan.lora_targets.split(",")), facts.policy):
        return
    no_dropout = "peft adapts whole tensors of experts without dropout."
    sharding, framework = sharding_of(plan), framework_named(plan.framework)
    left_out = "Leave gate_up_proj and down_proj out of lora_targets, or "
    apart = f"{left_out}set "
    for field, wrong, words, fix in (
        ("lora_dropout", plan.lora_dropout > 0, no_dropout, "Set lora_dropout to 0."),
        ("sharding", not (sharding.replicated or sharding.fsdp == 2), "",
         f"{apart}sharding to none, ddp or fsdp2."),
        ("framework", framework.adapts_modules_alone, "", f"{left_out}take another framework."),
        ("compile", plan.compile, "", f"{apart}compile to false."),
        ("rollout", plan.rollout == "hf", "", f"{apart}rollout to vllm-colocated."),
    ):
        if wrong:
            value = getattr(plan, field)
            known = words or f"{field} {value} with adapters of experts {NOT_YET}"
            yield Problem(field, known, fix)
