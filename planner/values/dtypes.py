"""The dtypes that a plan can name: their bytes, and what torch calls them. Imports nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BYTES: Mapping[str, int] = MappingProxyType({"bf16": 2, "fp16": 2, "fp32": 4})
"""Bytes of one value; no table anywhere else."""
WITH_FP8: Mapping[str, int] = MappingProxyType({**BYTES, "fp8": 1})
"""The same of what kernels multiply and engines cache."""
TORCH_NAMES: Mapping[str, str] = MappingProxyType(
    {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
)
"""torch's names, which transformers, TRL, verl and vLLM share."""
