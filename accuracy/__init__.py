"""Published runs beside estimates: the table of docs/accuracy.md and where it comes from.

``python -m accuracy`` writes the document. Nothing here sets a number of the planner;
``planner`` never imports this package.
"""
