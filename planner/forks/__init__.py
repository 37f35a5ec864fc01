"""Processes of ours that begin with their imports done: forks of one that has made them."""
