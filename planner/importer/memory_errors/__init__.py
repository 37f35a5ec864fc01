"""Out-of-memory text as values: what failed, its numbers with their rounding, where, and why."""

from planner.importer.memory_errors.message import Frame, Message, Size
from planner.importer.memory_errors.reading import read_messages

__all__ = ["Frame", "Message", "Size", "read_messages"]
