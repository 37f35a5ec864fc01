"""How much of the frameworks' own examples the importers understand: ``python -m accuracy.scripts``."""
