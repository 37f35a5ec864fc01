"""Published speeds that set no share of the time model: the figures of its own test."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

TEST = Path(__file__).parents[1] / "tests" / "accuracy" / "test_published_times.py"


def figures() -> list[Any]:
    """What, source, card, seconds, predicted, keys of each figure; needs pytest installed."""
    name = "accuracy_published_times"
    if name not in sys.modules:
        spec = spec_from_file_location(name, TEST)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(f"{TEST.name} is not beside the tests.")
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their own module up
        spec.loader.exec_module(module)
    return list(sys.modules[name].FIGURES)
