"""Which cuDNN a version of torch brings, and on which cards its attention comes first. No torch."""

from __future__ import annotations

CUDNN_OF_TORCH = {"2.13.0": 92000}
"""cuDNN that torch's wheels from PyPI pin: torch 2.13.0 asks for nvidia-cudnn-cu13 9.20.0.48."""
FIRST_ABOVE = 91500


def comes_first(compute_capability: str | None, cudnn_version: int) -> bool:
    """``check_prefer_cudnn_attention`` of builds for CUDA 13: Hopper, data-centre Blackwell.

    Args:
        compute_capability: such as ``9.0``; None where it is not known.
        cudnn_version: as ``torch.backends.cudnn.version()`` says it; 0 when it is absent.
    """
    major = (compute_capability or "").partition(".")[0]
    return cudnn_version > FIRST_ABOVE and major in ("9", "10")
