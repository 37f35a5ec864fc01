"""From distances to weights: how far a prompt is from its neighbours decides how often it is drawn.

The mean distance of the k nearest is *sparsity*: large in rare regions. Rare ones are favoured by
w ∝ d, common ones by w ∝ 1/d, which is what the document's code does while it says the opposite.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from planner.sampling.run.neighbours import F64

Favour = Literal["rare", "common"]


def mean_distance(distances: F64) -> F64:
    """Mean distance to the nearest that were found, shape [prompts, neighbours] to [prompts].

    NaN of a prompt without any.
    """
    there = np.isfinite(distances)
    count = there.sum(axis=1)
    total = np.where(there, distances, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def weights(density: F64, favour: Favour) -> F64:
    """Chances of each prompt, which sum to 1.

    A prompt with as many duplicates as neighbours has no distance at all. It counts as the
    nearest of those that have one, so that it is neither never drawn nor alone; where nobody has
    one, all chances are equal.
    """
    apart = density[density > 0]
    if not len(apart):
        return np.full(len(density), 1 / len(density))
    floored = np.maximum(density, apart.min())
    raw = floored if favour == "rare" else apart.min() / floored
    chances: F64 = raw / raw.sum()
    return chances
