"""How much of the frameworks' own examples the importers understand."""
