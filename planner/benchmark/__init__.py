"""A benchmark of the local device, in about 20 seconds: what the time model takes from a card.

``python -m planner benchmark --device cuda:0``; see docs/benchmark.md. One file per measured
idea; :mod:`planner.benchmark.run.session` runs them in the command's own process, and only what is below
it imports torch.
"""
