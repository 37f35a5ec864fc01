"""Logs of runs as what was measured: memory, seconds and lengths, by phase where a log says so."""

from planner.importer.logs.measured import Figure, LoggedLengths, Measured
from planner.importer.logs.reading import read_logs

__all__ = ["Figure", "LoggedLengths", "Measured", "read_logs"]
