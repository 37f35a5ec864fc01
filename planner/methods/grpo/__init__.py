"""GRPO and its relatives (RLOO, REINFORCE++, DAPO, GSPO, Dr. GRPO): no critic.

They differ in advantages and clipping, which are a few numbers a token, so their
memory is the same.
"""
