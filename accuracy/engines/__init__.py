"""What a rollout engine takes, beside the start-up logs of real ones."""
