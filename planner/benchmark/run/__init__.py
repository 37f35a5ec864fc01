"""Measures the local device, one file per idea. May import torch."""
