"""Programs around TRL's trainer, for what its own scripts cannot do; nothing of ours imports one.

Each is a template that :mod:`planner.launch.program` fills. They import torch, TRL and what the
requirements name.
"""
