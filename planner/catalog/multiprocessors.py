"""How many multiprocessors a card has: kernels with one partial sum each are sized by it.

Imports nothing.
"""

from __future__ import annotations

MULTIPROCESSORS = {
    "v100-16gb": 80,
    "v100-16gb-pcie": 80,
    "v100-32gb": 80,
    "t4": 40,
    "a10g": 80,
    "a40": 84,
    "a100-40gb": 108,
    "a100-40gb-pcie": 108,
    "a100-80gb": 108,
    "a100-80gb-pcie": 108,
    "l40s": 142,
    "h100-80gb": 132,
    "h100-80gb-pcie": 114,
    "h20-96gb": 78,
    "h200-141gb": 132,
    "b200-180gb": 148,
    "rtx-a6000": 84,
    "rtx-pro-6000-blackwell": 188,
    "rtx-3090": 82,
    "rtx-4090": 128,
}
"""``multi_processor_count`` as ``torch.cuda.get_device_properties`` printed it in public files that
name the card, read 2026-11 (the 32 GB and PCIe V100 and the SXM 40 GB and PCIe 80 GB A100 are the
same chips in other boards). Cards that nobody was seen to print are left out."""


def multiprocessors(gpu: str) -> int:
    """Multiprocessors of a card of the catalog.

    Raises:
        ValueError: nobody was seen to report them for this card.
    """
    if gpu not in MULTIPROCESSORS:
        raise ValueError(
            f"gpu: how many multiprocessors {gpu} has is not known, and Liger's norms take scratch "
            f"by them; choose one of {', '.join(MULTIPROCESSORS)}, or set liger to false"
        )
    return MULTIPROCESSORS[gpu]
