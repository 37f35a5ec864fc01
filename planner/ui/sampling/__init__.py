"""The Sampling page: its own inputs, link and answer. No torch."""
