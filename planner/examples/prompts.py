"""Document 003's case at any number of prompts: its plan, and host RAM by mode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import numpy as np

from planner.sampling.estimate import curve
from planner.sampling.plan import SamplingPlan
from planner.sampling.presets import DOCUMENT, PRESETS

PROMPTS = (28_000, 100_000, 280_000, 1_000_000, 2_800_000, 10_000_000, 28_000_000)
"""On the card's slider; the document's own is 28,000."""
SMALL = SamplingPlan(
    prompts=1_000, model="HuggingFaceTB/SmolLM2-135M", embedding="hidden", prompt_tokens=128
)
"""A thousand prompts through a model of 135 million parameters, on any machine."""


def case(prompts: int) -> SamplingPlan:
    """The document's plan for so many prompts."""
    return PRESETS[DOCUMENT][1].changed(prompts=prompts)


@cache
def host_bytes() -> Mapping[str, Mapping[int, int]]:
    """Host RAM at its peak by mode and number of prompts, the slider's places among them."""
    between = np.geomspace(PROMPTS[0], PROMPTS[-1], 41).round().astype(np.int64)
    prompts = np.unique([*between, *PROMPTS])
    sizes = curve(case(PROMPTS[0]), prompts)
    return MappingProxyType(
        {
            mode: dict(zip(prompts.tolist(), found.tolist(), strict=True))
            for mode, found in sizes.items()
        }
    )
