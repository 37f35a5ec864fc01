"""DPO: a loss over pairs of given responses, against a frozen reference.

A micro-batch of pairs runs twice as many rows: all chosen responses, then all rejected
ones, in one forward.
"""
