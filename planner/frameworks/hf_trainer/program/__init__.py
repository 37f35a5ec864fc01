"""Programs around transformers' Trainer; nothing of ours imports one.

Each is a template that :mod:`planner.launch.program` fills. They import torch, transformers, peft
and what the requirements name.
"""
