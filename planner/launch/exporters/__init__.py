"""One module per framework, named like it.

Each has ``VERSION``, ``obstacles(plan)`` and ``write(plan, link)``.
"""
