"""Parts of programs, written into each that imports them; nothing of ours imports one.

A piece imports torch and what the requirements name, never another part of the planner.
"""
