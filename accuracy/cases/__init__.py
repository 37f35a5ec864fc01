"""Public reports and scripts typed as plans: what was reported beside what the estimate says.

``python -m accuracy.cases`` writes docs/cases.md. The rows are facts of public threads (each with
its address), read on the day that ``rows.json`` names; the words of the commit that it names are
kept beside today's.
"""
