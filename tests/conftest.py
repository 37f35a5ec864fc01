"""What holds for every test."""

from own_folders import own_data

__all__ = ["own_data"]
