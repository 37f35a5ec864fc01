"""Headroom: whether a reinforcement-learning post-training run fits, and what it costs."""
