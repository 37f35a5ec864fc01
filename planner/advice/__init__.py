"""Advice on one plan: what makes it fit, what its room buys, which GPUs. Every figure re-estimated.

No formula stands here: a plan is changed, estimated again, and compared with what it was.
"""

from planner.advice.advice import recommend as recommend
