"""What a sampling plan leaves to be derived: dimensions, lists, probes, training prompts.

Each is a number of the plan or, at 0, what is usual; for one plan or for a whole curve over
prompts. The recall that lists and probes give is nobody's guess: a run samples it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.catalog import model
from planner.numeric import Num, ceil_div, maximum, minimum
from planner.units import MIB
from planner.values.dtypes import BYTES

if TYPE_CHECKING:
    from planner.sampling.plan import SamplingPlan

FEWEST_PER_LIST = 39
"""Training prompts for each list below which FAISS warns: ``ClusteringParameters``'
``min_points_per_centroid`` (faiss/Clustering.h)."""
PER_LIST = 64
"""Training prompts for each list where the plan names none; FAISS uses at most 256."""
CHUNK_BYTES = 64 * MIB
"""Of a Parquet chunk where nobody chose its prompts: seconds of work, and little memory."""
ROWS = 256
"""Chunks and parts are multiples of so many rows: a block of scikit-learn's."""
PART_PRODUCTS = 2 * 10**11
"""Products of one part of a search, so that a kill costs seconds."""


def _root(value: Num) -> Num:
    """The whole part of a square root."""
    root = np.floor(np.sqrt(value)).astype(np.int64)
    return root if isinstance(value, np.ndarray) else int(root)


def width_of(plan: SamplingPlan) -> int:
    """Values of one embedding.

    Raises:
        ValueError: where the plan names neither dimensions nor a known model.
    """
    if plan.dimensions:
        return int(plan.dimensions)
    architecture = model(plan.model).architecture
    if architecture is None:
        raise ValueError(f"dimensions: {plan.model} has no architecture; set dimensions.")
    return architecture.vocab if plan.embedding == "logits" else architecture.hidden


def lists_of(plan: SamplingPlan) -> Num:
    """Lists of the IVF index: 4·√N, as FAISS advises below a million, where the plan has 0.

    Source: https://github.com/facebookresearch/faiss/wiki/Guidelines-to-choose-an-index
    (IVFK with K from 4·√N to 16·√N), held to what prompts can train.
    """
    if plan.lists:
        return plan.lists
    return maximum(1, minimum(4 * _root(plan.prompts), plan.prompts // FEWEST_PER_LIST))


def probes_of(plan: SamplingPlan) -> Num:
    """Lists that a search visits: the plan's, or √lists, a start whose recall a run samples."""
    return plan.probes or maximum(1, _root(lists_of(plan)))


def training_of(plan: SamplingPlan) -> Num:
    """Prompts that train the lists: the plan's, or 64 for each list, at most all."""
    return plan.training_prompts or minimum(plan.prompts, PER_LIST * lists_of(plan))


def chunk_of(plan: SamplingPlan) -> Num:
    """Prompts of one Parquet chunk: the plan's, or what 64 MiB hold in 256s, at most all."""
    held = CHUNK_BYTES // (width_of(plan) * BYTES[plan.dtype])
    return minimum(plan.prompts, plan.chunk_prompts or max(ROWS, held // ROWS * ROWS))


def last_chunk_of(plan: SamplingPlan) -> Num:
    """Prompts of the last chunk."""
    return (plan.prompts - 1) % chunk_of(plan) + 1


def part_of(plan: SamplingPlan) -> Num:
    """Prompts that one part of the search asks for: some 2·10¹¹ products, in 256s."""
    scanned = plan.prompts
    if plan.index == "faiss-ivf":
        lists = lists_of(plan)
        scanned = lists + probes_of(plan) * ceil_div(plan.prompts, lists)
    wanted = PART_PRODUCTS // (scanned * width_of(plan)) // ROWS * ROWS
    return minimum(chunk_of(plan), maximum(ROWS, wanted))
