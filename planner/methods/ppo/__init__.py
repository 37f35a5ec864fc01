"""PPO: GRPO's phases with a critic that is evaluated and updated before the policy."""
