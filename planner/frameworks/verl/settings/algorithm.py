"""Method, KL term and variation: the settings of ``algorithm``, and the actor's of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.settings.roles import (
    adapts,
    apart,
    compares,
    criticises,
    estimator_of,
    method_of,
)
from planner.frameworks.verl.settings.rows import ACTOR, Said, joint, refuses
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting

KL_COEFFICIENT = 0.001
"""verl's own default for kl_loss_coef and kl_ctrl.kl_coef."""
ENTROPY_COEFFICIENT = 0.001


def _method(said: Said) -> Mapping[str, Any]:
    method, estimator, fields = method_of(said)
    if criticises(said) != estimator.critic:
        raise ValueError("critic.enable adds a critic, or takes one away, which no method has.")
    return {"method": method, **fields, **({"critic": "separate"} if estimator.critic else {})}


def _kl(said: Said) -> Mapping[str, Any]:
    """The KL term and the reference it needs; a term in the loss goes before one in the reward."""
    if not compares(said):
        return {"kl": "none", "reference": "none"}
    kl = {"kl": "loss" if said[f"{ACTOR}.use_kl_loss"] else "reward"}
    if said["model_engine"] != "dp" and not adapts(said):  # where its weights are, FSDP alone says
        return kl
    return {**kl, "reference": "adapter-disabled" if adapts(said) else "offloaded"}


def _kl_in_reward(said: Said) -> Mapping[str, Any]:
    if said[f"{ACTOR}.use_kl_loss"] and said["algorithm.use_kl_in_reward"]:
        raise ValueError("A plan has its KL term in the loss or in the reward, not in both.")
    return _kl(said)


def _varied(said: Said) -> Mapping[str, Any]:
    method, estimator, _ = method_of(said)
    has = trainer_of(FRAMEWORK.name, method).variations
    return {"variation": estimator.variation(said)} if has else {}


KL = ("kl", "reference")

ESTIMATOR = (
    joint(
        ("method", "critic"),
        "algorithm.adv_estimator", "gae", "ppo_trainer.yaml:78",
        lambda plan: estimator_of(plan).name(plan), _method,
    ),
    joint(
        KL, "algorithm.use_kl_in_reward", False, "ppo_trainer.yaml:102",
        lambda plan: plan.kl == "reward", _kl_in_reward,
    ),
)  # fmt: skip

KL_LOSS = joint(
    KL, f"{ACTOR}.use_kl_loss", False, "actor/actor.yaml:103", lambda plan: plan.kl == "loss", _kl
)
KL_LOSS_COEFFICIENT = joint(
    KL, f"{ACTOR}.kl_loss_coef", KL_COEFFICIENT, "actor/actor.yaml:113",
    lambda plan: KL_COEFFICIENT if plan.kl == "loss" else None,
)  # fmt: skip
KL_CONTROL = (
    joint(
        KL, "algorithm.kl_ctrl.kl_coef", KL_COEFFICIENT, "ppo_trainer.yaml:117",
        lambda plan: KL_COEFFICIENT if plan.kl == "reward" else None,
    ),
)  # fmt: skip


def _of_variation(name: str, default: Any, source: str, read: Any = None) -> Setting:
    return joint(
        ("variation",), name, default, source,
        lambda plan: trainer_of(FRAMEWORK.name, plan.method).told(plan).get(name), read,
    )  # fmt: skip


VARIATION = (
    _of_variation("algorithm.norm_adv_by_std_in_grpo", True, "ppo_trainer.yaml:81"),
    _of_variation(
        f"{ACTOR}.policy_loss.loss_mode", "vanilla", "actor/actor.yaml:61", _varied
    ),
    _of_variation(f"{ACTOR}.clip_ratio_low", 0.2, "actor/actor.yaml:39"),
    _of_variation(f"{ACTOR}.clip_ratio_high", 0.2, "actor/actor.yaml:42"),
    _of_variation(f"{ACTOR}.clip_ratio_c", 3.0, "actor/actor.yaml:83"),
    _of_variation(f"{ACTOR}.loss_agg_mode", "token-mean", "actor/actor.yaml:86"),
)

SAMPLING = (
    refuses(
        "resampling_factor", "algorithm.filter_groups.enable", False, "ppo_trainer.yaml:90",
        (False,),
        "Groups without a signal are sampled again: generation takes more seconds, as often as "
        "resampling_factor says, which depends on the data.",
    ),
)  # fmt: skip

CORRECTION = refuses(
    "rollout", "algorithm.rollout_correction.bypass_mode", False,
    "algorithm/rollout_correction.yaml:20", (False,),
    "The engine's log-probs are the old ones: the pass that computes them is left out, with its "
    "seconds and its peak.",
    # Else they would take the place of the old ones, which the plan computes.
    write=lambda plan: False if apart(plan) else None,
)  # fmt: skip
