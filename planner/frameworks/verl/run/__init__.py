"""verl's own engine on tensors without data: imports torch and verl, in the dry run's process."""
