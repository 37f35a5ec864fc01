"""What of a card decides which kernel runs. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog.cudnn import CUDNN_OF_TORCH
from planner.catalog.gpu_catalog import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTraits:
    """A CUDA card with the libraries beside it."""

    compute_capability: str
    """Such as ``9.0``."""
    cudnn_version: int
    """As ``torch.backends.cudnn.version()`` says it: 92000 is 9.20.0. 0 when cuDNN is absent or
    deprioritised (``TORCH_CUDNN_SDPA_DEPRIORITIZED``)."""

    def __post_init__(self) -> None:
        """Refuse what is not a CUDA capability."""
        major, _, minor = self.compute_capability.partition(".")
        if not (major.isdigit() and minor.isdigit()):
            raise ValueError(
                f"gpu: {self.compute_capability} is no CUDA compute capability; the dry run knows "
                "which attention kernel runs on NVIDIA cards only. Choose one of those."
            )

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)


def traits(gpu: Gpu, torch_version: str) -> CardTraits:
    """Of a card of the catalog with torch's own wheels.

    Raises:
        ValueError: the card is no NVIDIA card, or the version of torch is not known.
    """
    if gpu.compute_capability is None:
        raise ValueError(f"gpu: the compute capability of {gpu.key} is not known.")
    if torch_version not in CUDNN_OF_TORCH:
        raise ValueError(
            f"torch_version: which cuDNN torch {torch_version} brings is not known; choose one "
            f"of {', '.join(CUDNN_OF_TORCH)}."
        )
    return CardTraits(
        compute_capability=gpu.compute_capability, cudnn_version=CUDNN_OF_TORCH[torch_version]
    )
