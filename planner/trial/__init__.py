"""The measured trial: the plan's own steps, really run for a few iterations. See docs/trial.md.

``result``, ``figures``, ``request``, ``truncation``, ``extrapolation``, ``device_lock``,
``folders``, ``supervisor`` and ``process`` load no torch; the rest belongs to the worker's process.
"""
