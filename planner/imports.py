"""Imports that take seconds, of objects that live as long as their process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_for_good() -> Iterator[None]:
    """Let the collector neither run meanwhile nor ever look at what is there by then.

    Torch and transformers make a million objects: searching them is a fifth of a cold start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()
