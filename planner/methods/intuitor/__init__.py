"""Intuitor: GRPO whose reward is the policy's own certainty about its answer.

Self-certainty is computed without gradient together with the old log-probs, once per
step; the update never sees it. The document's premise (gradient through it) is a
switch, to show what it would cost.
"""
