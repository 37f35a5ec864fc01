"""The methods: a folder each, found by looking, so that a new one is a new folder.

A folder ``planner/methods/<name>/`` has ``__init__.py`` with ``METHOD``
(:class:`~planner.values.method.Method`: what it is), ``memory.py`` with ``phases(scene)`` (the
closed form) and ``step.py`` with ``step(run)`` (the real step; torch may be imported there alone).
:mod:`planner.plan.methods` finds them.
"""
