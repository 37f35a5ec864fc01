"""The worker's own process: runs the plan's steps and measures them. May import torch."""
