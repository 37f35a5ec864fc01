"""How much of the frameworks' own examples is understood: ``python -m accuracy.scripts``."""
