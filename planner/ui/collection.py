"""Garbage is collected, but not among what lasts as long as the server.

After each script Streamlit would look through every object there is, most of them of libraries,
which takes as long as the script itself; ``runner.postScriptGC`` in ``.streamlit/config.toml`` ends
that. Python's own collection goes on, and once all is loaded it leaves what is there aside.
"""

from __future__ import annotations

import gc
from functools import cache

SETTLED_RUNS = 3
"""Scripts after which what pages import, and what they keep of it, is there."""
THRESHOLDS = (10_000, 20, 20)
"""Python's own are 700, 10 and 10, at which an edit's script is interrupted ten times and more."""


@cache
def _runs() -> list[int]:
    return [0]


def script_ended() -> None:
    """Called after each script; once, everything that is no garbage is set aside for good."""
    runs = _runs()
    runs[0] += 1
    if runs[0] == SETTLED_RUNS:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
