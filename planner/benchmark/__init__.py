"""A benchmark of the local device, in about 20 seconds: what the time model takes from a card.

``python -m planner benchmark --device cuda:0``; see docs/benchmark.md. ``run/`` measures, in the
command's own process, one file per idea, and may import torch; ``ask/`` starts it, keeps what it
found and says it in words, without torch.
"""
