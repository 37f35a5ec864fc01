"""Whether the card of this machine is the one that a measurement is said to be of."""

from __future__ import annotations

from planner import catalog
from planner.trial.run.device import device_of


def check_card(gpu: str, device: str) -> None:
    """Nothing where a device is the catalog's card, or a processor.

    Raises:
        ValueError: naming the card that is there, for another one than ``gpu``.
    """
    catalog.gpu(gpu)
    if device == "cpu":
        return
    found = device_of(device, None)
    if found.gpu != gpu:
        there = found.gpu or "which the catalog has no row for"
        raise ValueError(f"gpu is {gpu}, and {device} is an {found.name} ({there}): name that one.")
