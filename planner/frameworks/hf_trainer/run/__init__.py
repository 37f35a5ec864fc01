"""transformers' Trainer on tensors without data: imports torch, in the dry run's process."""
