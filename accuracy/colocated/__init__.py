"""Whole RL cards that others measured, by phase: a LoRA trainer and a sleeping engine in one."""
