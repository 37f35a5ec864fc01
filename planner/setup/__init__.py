"""What follows from a plan: models, numbers, workloads, references; no torch, no bytes."""
