"""The estimator of the same name, and what verl is told of GRPO's variations."""

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

TRAINER = Trainer(export=Estimator(name=lambda plan: "grpo"), variations=VARIATIONS)
