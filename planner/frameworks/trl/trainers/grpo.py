"""``GRPOTrainer``."""

from __future__ import annotations

import numpy as np

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.plan import Plan
from planner.rule import Rule
from planner.values.dealing import whole
from planner.values.framework import Trainer


def _on_policy(plan: Plan) -> bool:
    """One update follows responses of its own, which no other engine sampled.

    ``trl/trainer/grpo_trainer.py`` of 1.16.0, lines 2637 to 2657 and 3060 to 3066.
    """
    return plan.rollout == "hf" and bool(np.all(plan.prompts_per_update == plan.prompts_per_step))


_SAYS = "TRL stops: the generation batch must be divisible by the global batch size"
WHOLE = whole(_SAYS, _SAYS)
"""``__post_init__`` of grpo_config.py and rloo_config.py in 1.16.0: a ``ValueError``."""

VARIATIONS: dict[str, dict[str, object]] = {
    "dapo": {
        "loss_type": "dapo",
        "epsilon": 0.2,
        "epsilon_high": 0.28,
        "mask_truncated_completions": True,
    },
    "dr-grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "gspo": {
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
}
"""As their papers have them, in the words of ``GRPOConfig`` of 1.16.0 (grpo_config.py)."""

TRAINER = Trainer(
    rules=(
        *WHOLE,
        Rule(
            "kl",
            lambda plan: plan.kl == "reward",
            "TRL's GRPO adds KL to the loss, never to the reward.",
            "Set kl to loss or none.",
        ),
    ),
    export=Script(
        module="grpo",
        samples=True,
        kl=("none", "loss"),
        entropy=True,
        weighted="density_grpo.py",
    ),
    variations=VARIATIONS,
    own=Own(
        trainer="GRPOTrainer",
        config="GRPOConfig",
        rows="prompts",
        defaults={"loss_type": "dapo"},
    ),
    own_old_log_probs=_on_policy,
)
