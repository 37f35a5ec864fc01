"""The process that executes: imports torch, and is reached through ``ask/port.py`` alone."""
