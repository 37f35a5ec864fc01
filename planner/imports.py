"""Imports that take seconds, of objects that live as long as their process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


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


def imported_for_good(name: str) -> ModuleType:
    """A module; what its first import makes is :func:`kept_for_good`."""
    if name in sys.modules:
        return sys.modules[name]
    with kept_for_good():
        return import_module(name)
