"""The real step on tensors without data: what it holds, instant by instant. See docs/dry-run.md.

``ask/`` asks and answers, ``logs/`` reads what happened, ``allocator/`` replays it, without torch;
``run/`` is the process that executes, and imports it.
"""
