"""Seconds that others measured on real GPUs, row by row, beside the time of each row's plan."""
