"""The preflight's template, which :mod:`planner.launch.program` fills; nothing of ours imports it.

It imports Python's own modules alone, and ray where it is asked to look at a cluster's nodes.
"""
