"""Starts a benchmark, keeps what it found and says it in words. No torch."""
