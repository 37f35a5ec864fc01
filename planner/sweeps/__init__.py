"""Many plans at once: a table over axes, and what its rows are judged by."""
