"""The command line: one module a command, each with ``register`` and its own ``run``. No torch."""
