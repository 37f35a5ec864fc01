"""Supervised fine-tuning: one forward and backward per micro-batch, nothing generated."""
