"""vLLM's start-up lines: weights, cache, graphs, what a profile run took, what sleep freed.

gpu_model_runner.py, gpu_worker.py and kv_cache_utils.py of vLLM 0.8 to 0.31. One engine of several
is read: the one with the most.
"""

from __future__ import annotations

import re

from planner.importer.lines import Log
from planner.importer.logs.measured import Figure, Measured
from planner.term import AWAKE, POOL
from planner.units import GIB

HINTS = (
    *("Model loading took", "KV cache memory:", "KV cache size:", "Graph capturing finished"),
    *("model weights take", "reserved for KV Cache is", "Sleep mode freed", "weights memory:"),
)
_NUMBER = r"(-?\d{1,9}(?:\.\d{1,9})?) ?Gi?B"
TERMS = (
    (f"(?:Model loading took|model weights take|weights memory:) {_NUMBER}", "weights", AWAKE),
    (
        f"(?:Available KV cache memory:|reserved for KV Cache is) {_NUMBER}",
        "cache",
        POOL,
    ),
    (f"Graph capturing finished in .{{1,12}} secs, took {_NUMBER}", "graphs", "vLLM CUDA graphs"),
    (
        f"(?:activation peak memory takes|torch peak memory increase:) {_NUMBER}",
        "activation peak",
        "vLLM working memory",
    ),
)
"""A pattern, what the log calls it, and the plan's term."""
_TERMS = tuple((re.compile(text), words, term) for text, words, term in TERMS)
_TOKENS = re.compile(r"KV cache size: ([\d,]{1,16}) tokens")
_SLEEP = re.compile(f"Sleep mode freed {_NUMBER} memory, {_NUMBER} memory is still in use")


def read(log: Log) -> Measured | None:
    """What the lines say; None where there is none."""
    found: dict[str, Figure] = {}
    notes: dict[str, None] = {}
    for at in log.having(HINTS):
        text = log[at].text
        for pattern, words, term in _TERMS:
            if (there := pattern.search(text)) is not None:
                value = max(float(there[1]) * GIB, found[term].value if term in found else 0.0)
                found[term] = Figure(words, "device_bytes", value, term=term)
        if (tokens := _TOKENS.search(text)) is not None:
            notes[f"The engine's cache holds {tokens[1]} tokens."] = None
        if (slept := _SLEEP.search(text)) is not None:
            notes[
                f"Sleep freed {slept[1]} GiB; {slept[2]} GiB stayed in use on the card, the "
                "trainer's and others' included."
            ] = None
    if not found and not notes:
        return None
    return Measured(form="vLLM", steps=0, figures=tuple(found.values()), notes=tuple(notes)[:6])
