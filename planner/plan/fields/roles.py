"""Models and services beside the policy: reference, critic, reward."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from planner.plan.fields.kinds import UNSAMPLED, Count, adapted
from planner.values.field import Idle, field

NO_REWARD_TIME: Idle = (
    "no rule or other machine scores responses",
    lambda plan: plan.rollout in UNSAMPLED or plan.reward == "model",
)


class RoleFields(BaseModel):
    """Reference, critic and reward."""

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
        called={
            "copy": "copy of the model",
            "offloaded": "copy, offloaded",
            "adapter-disabled": "adapter disabled",
            "frozen-adapter": "frozen second adapter",
            "cached-logprobs": "cached log-probs",
            "cached-activations": "cached activations",
            "dual-output": "dual output",
        },
        names="ref model, reference policy",
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
        names="value model, value head",
        page=("roles", 40),
    )
    reward: Literal["rule", "model", "remote"] = field(
        "rule",
        "Reward",
        "Where rewards come from.",
        more="rule: code checks the answer. model: a network. remote: on other machines.",
        called={"model": "reward model"},
        names="reward model, verifier, rule, judge, RM",
        page=("roles", 60),
    )
    reward_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = field(
        0.0,
        "Seconds per reward",
        "Seconds to compute one response's reward, by rule or remotely.",
        more="Time that a rule or another machine takes to score one response.",
        empty="no time",
        names="tool time, sandbox, reward latency",
        page=("roles", 80),
        since=5,
        only_time=True,
        idle=(NO_REWARD_TIME,),
    )
    reward_concurrency: Count = field(
        1,
        "Rewards at once",
        "Rewards computed at the same time.",
        page=("roles", 90),
        since=5,
        only_time=True,
        idle=(
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
        names="DAPO, dynamic sampling, filter groups, resampling",
        page=("rollout", 160),
        since=5,
        only_time=True,
        idle=(("no responses are sampled", lambda plan: plan.rollout in UNSAMPLED),),
    )
