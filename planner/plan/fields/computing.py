"""How layers and loss are computed, and the models and services that the loss asks."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from planner.plan.fields.kinds import FLASH, UNSAMPLED, Count, Tokens, adapted, half
from planner.rule import NOT_YET
from planner.values.field import Idle, field

NO_REWARD_TIME: Idle = (
    "no rule or other machine scores responses",
    lambda plan: plan.rollout in UNSAMPLED or plan.reward == "model",
)


class ComputeFields(BaseModel):
    """Kernels, loss, reference, critic and reward."""

    gradient_checkpointing: Literal["none", "full", "selective"] = field(
        "full",
        "Gradient checkpointing",
        "Recompute layers in the backward instead of keeping them.",
        more="full keeps one tensor per layer and computes the rest again: about a third more "
        "time in the backward.",
        synonyms="activation checkpointing, recompute, recomputation",
        page=("savers", 10),
        moves="activations would lie between those of none and of full",
        not_modelled=(
            lambda plan: plan.gradient_checkpointing == "selective",
            f"gradient_checkpointing selective {NOT_YET}",
            "Choose none or full.",
        ),
    )
    attention: Literal["eager", "sdpa", "flash", "flash_attention_3"] = field(
        "sdpa",
        "Attention",
        "Attention kernel.",
        more="eager stores a score for every pair of tokens; the others never do. "
        "FlashAttention-3 runs on Hopper, is faster than FlashAttention-2 and keeps as much for "
        "the backward.",
        choice_labels={
            "sdpa": "SDPA",
            "flash": "FlashAttention-2",
            "flash_attention_3": "FlashAttention-3",
        },
        synonyms="FlashAttention, SDPA, FA2, FA3, eager",
        page=("savers", 40),
        refused=(
            (
                lambda p: p.attention in FLASH and not half(p),
                "Flash attention computes in half precision only.",
                "Set attention to sdpa, or dtype to bf16.",
            ),
        ),
    )
    logits: Literal["full", "response", "chunked", "fused"] = field(
        "response",
        "Cross-entropy",
        "How the loss computes logits over the vocabulary.",
        more="full: logits of all tokens. response: of response tokens only. chunked: a slice of "
        "tokens at a time. fused: fused linear cross-entropy, which never stores the logits whole.",
        choice_labels={
            "full": "full logits",
            "response": "logits of the response",
            "chunked": "chunked",
            "fused": "fused linear cross-entropy",
        },
        synonyms="cross-entropy, fused linear cross-entropy, chunked loss, vocabulary, LM head",
        page=("savers", 50),
    )
    chunk_tokens: Tokens = field(
        512,
        "Chunk of the head",
        "Tokens per chunk if logits is chunked.",
        more="A chunk's logits are stored in fp32, in several copies during the backward.",
        unit="tokens",
        page=("savers", 60),
        since=4,
    )
    chunk_compile: bool = field(
        False,
        "Compile the head's chunks",
        "torch.compile of the head where logits is chunked.",
        more="With torch.compile, most of a chunk's fp32 tensors are never allocated.",
        page=("savers", 70),
        since=4,
        refused=(
            (
                lambda p: p.chunk_compile and p.dtype == "fp32",
                f"chunk_compile with dtype fp32 {NOT_YET}",
                "Set chunk_compile to false, or dtype to bf16.",
            ),
        ),
        not_run="The head's chunks ran eagerly; compiled chunks keep less.",
    )
    temperature: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = field(
        1.0,
        "Temperature",
        "Sampling temperature; logits are divided by it.",
        more="The loss also divides logits by the temperature. The division makes another copy of "
        "the logits in verl, and in any loss whose softmax runs in the logits' own dtype.",
        page=("rollout", 150),
        since=4,
    )
    kl: Literal["none", "loss", "reward"] = field(
        "loss",
        "KL penalty",
        "Whether the KL term is in the loss or in the reward.",
        more="Keeps the policy near the model it started from (the reference): in the loss, or "
        "taken off the reward.",
        choice_labels={"loss": "in the loss", "reward": "in the reward"},
        synonyms="beta, KL coefficient, KL loss, reference penalty",
        page=("roles", 10),
    )
    entropy: bool = field(
        False,
        "Entropy bonus",
        "Entropy bonus in the loss.",
        more="Rewards spread-out distributions.",
        page=("roles", 20),
    )
    compile: bool = field(
        False,
        "torch.compile",
        "torch.compile of each layer.",
        synonyms="torch compile, inductor",
        page=("savers", 90),
        not_run="Layers ran eagerly; compiled layers keep less.",
    )
    liger: bool = field(
        False,
        "Liger kernels",
        "Liger kernels in the layers.",
        more="TRL's use_liger_kernel, verl's use_liger: norms, rotation and the gated MLP in "
        "Triton, which keep fewer activations. Liger does not change the loss, which stays the "
        "framework's own.",
        synonyms="Liger kernel, Triton kernels",
        page=("savers", 80),
        refused=(
            (
                lambda plan: (
                    plan.liger and (plan.reference == "dual-output" or plan.critic == "shared")
                ),
                f"liger with dual outputs or a shared critic {NOT_YET}",
                "Set liger to false.",
            ),
            (
                lambda plan: plan.liger and plan.compile,
                f"liger with compile {NOT_YET}",
                "Set liger to false.",
            ),
        ),
    )
    reference: Literal[
        "none",
        "copy",
        "adapter-disabled",
        "frozen-adapter",
        "offloaded",
        "cached-logprobs",
        "cached-activations",
        "dual-output",
    ] = field(
        "copy",
        "Reference",
        "Where reference log-probs come from.",
        more="copy: a second model on the GPUs. offloaded: in host RAM outside its phase. "
        "adapter-disabled: the policy with LoRA switched off. frozen-adapter: with a second "
        "adapter that never trains. cached-logprobs: computed apart, before the run, or in each "
        "step by other GPUs where responses are sampled. cached-activations: so the last hidden "
        "states; the loss runs them through the reference's head. dual-output: one forward, in "
        "which every layer runs with LoRA and without.",
        choice_labels={
            "copy": "copy of the model",
            "offloaded": "copy, offloaded",
            "adapter-disabled": "adapter disabled",
            "frozen-adapter": "frozen second adapter",
            "cached-logprobs": "cached log-probs",
            "cached-activations": "cached activations",
            "dual-output": "dual output",
        },
        synonyms="ref model, reference policy",
        page=("roles", 30),
        refused=(
            (
                lambda p: p.reference == "adapter-disabled" and not adapted(p),
                "Only adapters can be disabled to get the reference.",
                "Set reference to copy or offloaded, or finetuning to lora.",
            ),
            (
                lambda p: p.reference == "frozen-adapter" and not adapted(p),
                "A second adapter needs a model with adapters.",
                "Set finetuning to lora, or reference to copy or offloaded.",
            ),
            (
                lambda p: p.reference == "dual-output" and not adapted(p),
                "Without adapters the training forward does not contain the reference's weights.",
                "Set finetuning to lora, or reference to copy.",
            ),
            (
                lambda p: p.kl != "none" and p.reference == "none",
                "A KL term needs a reference.",
                "Set reference to copy (or adapter-disabled with LoRA), or kl to none.",
            ),
        ),
    )
    critic: Literal["none", "shared", "separate"] = field(
        "none",
        "Critic",
        "Value model.",
        more="PPO's network that predicts rewards. shared: a second head on the policy's body, "
        "with one forward, one backward and one optimizer.",
        synonyms="value model, value head",
        page=("roles", 40),
    )
    reward: Literal["rule", "model", "remote"] = field(
        "rule",
        "Reward",
        "Where rewards come from.",
        more="rule: code checks the answer. model: a network. remote: on other machines.",
        choice_labels={"model": "reward model"},
        synonyms="reward model, verifier, rule, judge, RM",
        page=("roles", 60),
    )
    reward_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = field(
        0.0,
        "Seconds per reward",
        "Seconds to compute one response's reward, by rule or remotely.",
        more="Time that a rule or another machine takes to score one response.",
        empty="no time",
        synonyms="tool time, sandbox, reward latency",
        page=("roles", 80),
        since=5,
        only_time=True,
        no_effect=(NO_REWARD_TIME,),
    )
    reward_concurrency: Count = field(
        1,
        "Rewards at once",
        "Rewards computed at the same time.",
        page=("roles", 90),
        since=5,
        only_time=True,
        no_effect=(
            NO_REWARD_TIME,
            ("rewards take no time", lambda plan: plan.reward_seconds == 0),
        ),
    )
    resampling_factor: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False)] = field(
        1.0,
        "Dynamic sampling: generation multiplier",
        "Responses generated per response that is trained on.",
        more="DAPO throws away groups whose rewards are all equal and samples others in their "
        "place: 3 means that three times as many responses are sampled as are trained on. Dynamic "
        "sampling takes time and money, not memory.",
        synonyms="DAPO, dynamic sampling, filter groups, resampling",
        page=("rollout", 160),
        since=5,
        only_time=True,
        no_effect=(("no responses are sampled", lambda plan: plan.rollout in UNSAMPLED),),
    )
