"""TRL's own trainers on tensors without data: imports torch and TRL, in the dry run's process."""
