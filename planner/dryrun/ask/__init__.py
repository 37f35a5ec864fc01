"""Asks for dry runs and reads their answers: for a process without torch."""
