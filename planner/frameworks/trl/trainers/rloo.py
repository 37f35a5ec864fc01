"""``RLOOTrainer``: the KL term comes off the reward (``_generate_and_score_completions``)."""

from planner.frameworks.trl.own import Own
from planner.frameworks.trl.script import Script
from planner.frameworks.trl.trainers.grpo import WHOLE
from planner.rule import Rule
from planner.values.framework import Trainer

LACKS = frozenset(
    (
        *("cast_lm_head_to_fp32", "entropy_coef", "use_adaptive_entropy", "loss_type"),
        *("scale_rewards", "importance_sampling_level", "top_entropy_quantile"),
        *("off_policy_mask_threshold", "vllm_importance_sampling_correction"),
        "max_tool_calling_iterations",
    )
)
"""Of GRPO's settings."""

TRAINER = Trainer(
    rules=(
        *WHOLE,
        Rule(
            "kl",
            lambda plan: plan.kl == "loss",
            "TRL's RLOO subtracts the KL term from the reward; its loss has no KL term.",
            "Set kl to reward or none.",
        ),
        Rule(
            "entropy",
            lambda plan: plan.entropy,
            "TRL's RLOO has no entropy bonus.",
            "Set entropy to false.",
        ),
        Rule(
            "framework_version",
            lambda plan: plan.framework_version != "1.16.0",
            "Of TRL's RLOO trainers, only that of version 1.16.0 is modelled.",
            "Set framework_version to 1.16.0.",
        ),
    ),
    export=Script(module="rloo", samples=True, kl=("none", "reward")),
    # rloo_trainer.py, _generate_and_score_completions: old_logps and advantages; KL is in rewards.
    numbers_by_sequence=True,
    own=Own(
        trainer="RLOOTrainer",
        config="RLOOConfig",
        rows="prompts",
        # rloo_config.py, lines 301 and 502
        defaults={"num_generations": 2, "beta": 0.05},
        lacks=LACKS,
    ),
)
