"""Every form of log that a text has."""

from __future__ import annotations

from planner.importer.lines import Log
from planner.importer.logs import history, memory_summary, nvidia_smi, verl, vllm
from planner.importer.logs.measured import Measured


def read_logs(text: str) -> tuple[Measured, ...]:
    """What a text measured, one of each form that is in it; empty where nothing is.

    Raises:
        ValueError: for more than 10 MiB.
    """
    log = Log(text)
    forms = (verl.read, vllm.read, nvidia_smi.read, memory_summary.read)
    found = (history.read(log, text), *(read(log) for read in forms))
    return tuple(one for one in found if one is not None)
