"""Seconds of each stage from a calibration's rates. No torch.

A rate is seconds a product: a pair of vectors and dimension. What a run's own stages do decides
how many: all pairs, or k-means, one search of the centres a prompt, and the lists that are probed.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.sampling.derived import lists_of, probes_of, training_of, width_of
from planner.sampling.plan import SamplingPlan

KMEANS_ROUNDS = 10


def predicted_seconds(plan: SamplingPlan, rates: Mapping[str, float]) -> dict[str, float]:
    """Seconds by stage, of those that the rates tell.

    Args:
        plan: the run.
        rates: ``prompt`` seconds a prompt embedded; ``pair`` seconds a product of an exact
            search, or of a search of an index's centres; ``scan`` seconds a product of a list.
    """
    width = width_of(plan)
    found: dict[str, float] = {}
    if "prompt" in rates:
        found["embed"] = plan.prompts * rates["prompt"]
    if "pair" not in rates:
        return found
    if plan.index != "faiss-ivf":
        found["search"] = plan.prompts**2 * width * rates["pair"]
        return found
    lists, probes = int(lists_of(plan)), int(probes_of(plan))
    search_centres = lists * width * rates["pair"]
    found["train"] = KMEANS_ROUNDS * int(training_of(plan)) * search_centres
    found["assign"] = plan.prompts * search_centres
    scanned = probes * plan.prompts / lists * width * rates["scan"]
    found["search"] = plan.prompts * (search_centres + scanned)
    return found
