"""The documents this project grew from, recomputed: claims, true figures and their dry runs.

No torch; ``measure`` writes the committed dry runs anew, in the dry run's own process.
"""
