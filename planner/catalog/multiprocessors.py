"""How many multiprocessors a card has: kernels with one partial sum each are sized by it."""

from __future__ import annotations

from planner.catalog.gpu_catalog import CUSTOM, gpu, gpus


def multiprocessors(key: str) -> int:
    """Multiprocessors of a card of the catalog.

    Raises:
        ValueError: nobody was seen to report them for this card.
    """
    count = None if key == CUSTOM else gpu(key).multiprocessors
    if count is None:
        known = ", ".join(card.key for card in gpus() if card.multiprocessors)
        raise ValueError(
            f"gpu: how many multiprocessors {key} has is not known, and Liger's norms take scratch "
            f"by them; choose one of {known}, or set liger to false"
        )
    return count
