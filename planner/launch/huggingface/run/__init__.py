"""transformers' Trainer, and trainers built over it, run here: on tensors without data, and with.

Imports torch, in the process of a dry run or a trial.
"""
