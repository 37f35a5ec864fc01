"""Every form of log that a text has: frameworks' by their folders, others by modules here."""

from __future__ import annotations

from planner import registry
from planner.importer.lines import Log
from planner.importer.logs import memory_summary, nvidia_smi, own_trial, ray_monitor, vllm
from planner.importer.logs.measured import Measured

OTHERS = (own_trial.read, vllm.read, nvidia_smi.read, memory_summary.read, ray_monitor.read)


def read_logs(text: str) -> tuple[Measured, ...]:
    """What a text measured, one of each form that is in it; empty where nothing is.

    A framework's form is ``read(log)`` in a module ``log.py`` of its folder.

    Raises:
        ValueError: for more than 10 MiB.
    """
    log = Log(text)
    folders = registry.folders("frameworks")
    own = [name for name in folders if registry.has("frameworks", name, "log")]
    reads = [registry.load("frameworks", name, "log").read for name in own]
    found = (read(log) for read in (*reads, *OTHERS))
    return tuple(one for one in found if one is not None)
