"""transformers' Trainer on tensors without data: imports torch, in the dry run's process.

Trainers that are built over it have these seams too.
"""
