"""The estimator of the same name, and what verl is told of GRPO's variations."""

from collections.abc import Mapping
from typing import Any

from planner.frameworks.verl.estimator import Estimator
from planner.values.framework import Trainer

ACTOR = "actor_rollout_ref.actor"
VARIATIONS: dict[str, dict[str, object]] = {
    "dapo": {
        f"{ACTOR}.clip_ratio_low": 0.2,
        f"{ACTOR}.clip_ratio_high": 0.28,
        f"{ACTOR}.clip_ratio_c": 10.0,
        f"{ACTOR}.loss_agg_mode": "token-mean",
    },
    "dr-grpo": {
        "algorithm.norm_adv_by_std_in_grpo": False,
        f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm",
    },
    "gspo": {
        f"{ACTOR}.policy_loss.loss_mode": "gspo",
        f"{ACTOR}.clip_ratio_low": 0.0003,
        f"{ACTOR}.clip_ratio_high": 0.0004,
        f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean",
    },
    # Without a lower bound: 1 - clip_ratio_low is below every ratio.
    "cispo": {
        f"{ACTOR}.policy_loss.loss_mode": "cispo",
        f"{ACTOR}.clip_ratio_low": 10.0,
        f"{ACTOR}.clip_ratio_high": 4.0,
    },
}
"""As their papers have them, in the words of 0.9.1's actor.yaml and core_algos.py."""

LOSSES = ("gspo", "cispo")
"""Variations that verl calls by name."""


def _variation(said: Mapping[str, Any]) -> str:
    """By what makes a variation's gradient, whatever its bounds are."""
    if (loss := said[f"{ACTOR}.policy_loss.loss_mode"]) in LOSSES:
        return str(loss)
    summed = said[f"{ACTOR}.loss_agg_mode"] == "seq-mean-token-sum-norm"
    if summed and said["algorithm.norm_adv_by_std_in_grpo"] is False:
        return "dr-grpo"
    low, high = said[f"{ACTOR}.clip_ratio_low"], said[f"{ACTOR}.clip_ratio_high"]
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    token_mean = said[f"{ACTOR}.loss_agg_mode"] == "token-mean"
    return "dapo" if numbers and high > low and token_mean else "none"


TRAINER = Trainer(
    export=Estimator(
        name=lambda plan: "grpo",
        fields={"grpo": {}, "grpo_vectorized": {}},
        variation=_variation,
    ),
    variations=VARIATIONS,
)
