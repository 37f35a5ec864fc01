"""Sampling plans to begin with, released as they are: a preset never changes under its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from planner.sampling.plan import SamplingPlan
from planner.units import GIB

DEFAULT = "hidden-28k@1"
DOCUMENT = "doc-003@1"

PRESETS: Mapping[str, tuple[str, SamplingPlan]] = MappingProxyType(
    {
        DEFAULT: (
            "28 thousand prompts, hidden states",
            SamplingPlan(
                prompts=28_000, model="karpathy/nanochat-d20", embedding="hidden",
                model_dtype="bf16", host_ram=24 * GIB, device="rtx-4090",
            ),
        ),
        DOCUMENT: (
            "The document's case: logits, as its code has it",
            SamplingPlan(
                prompts=28_000, model="karpathy/nanoGPT-gpt2-50304", embedding="logits",
                assembly="concatenate", host_ram=24 * GIB, device="rtx-4090",
            ),
        ),
        "millions-2.8m@1": (
            "2.8 million prompts, hidden states, IVF",
            SamplingPlan(
                prompts=2_800_000, model="karpathy/nanochat-d20", embedding="hidden", dtype="fp16",
                model_dtype="bf16", index="faiss-ivf", mode="offline", host_ram=64 * GIB,
                device="h100-80gb", cores=32,
            ),
        ),
    }
)  # fmt: skip
"""Title and plan by name."""
