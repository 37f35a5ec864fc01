"""The frameworks: a folder each, found by looking, so that a new one is a new folder.

A folder's ``__init__`` defines ``FRAMEWORK``, a :class:`planner.values.framework.Framework`;
an ``exporter.py`` beside it writes plans as files, and ``trainers/`` has a file for each method.
:mod:`planner.plan.frameworks` finds them.
"""
