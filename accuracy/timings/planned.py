"""How a published timing becomes a plan, or why it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accuracy.timings.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A row's plan.

    ``only`` are the published phases that the plan speaks of: all, or those that its training's
    parallelism does not touch. ``exact`` where the source states what decides the time and a plan
    can say it; ``assumed`` is what was taken otherwise, one sentence for all rows that share it.
    ``lengths`` says whether responses' mean is known (rows of one length count: nothing is cut
    short), ``tokens`` how many of all GPUs' a published rate counts in a step, ``rounds`` how many
    of the plan's steps a published one is.
    """

    fields: dict[str, Any]
    assumed: str
    exact: bool = False
    lengths: bool = True
    tokens: float = 0.0
    rounds: int = 1
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A row without a plan, and the one reason."""

    reason: str


How = Planned | Left

CARDS = {
    "h100-96gb": "h100-80gb",
    "a800-80gb": "a100-80gb",
    "h800-80gb": "h100-80gb",
    "rtx4090-24gb": "rtx-4090",
    "a6000-48gb": "rtx-a6000",
    "b200-192gb": "b200-180gb",
    "gb200-192gb": "gb200-186gb",
}
"""Cards as the rows name them → the catalog's."""

LESSER = {
    "h100-96gb": "the card is an H100 of 96 GB at 500 W, planned as the 700 W one",
    "a800-80gb": "the card is an A800, an A100 with two thirds of its NVLink",
    "h800-80gb": "the card is an H800, an H100 with less than half of its NVLink",
}
"""What those of them are that the catalog does not have: no such row is exact."""

MODELS = {
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B",
    "Llama-3.2-3B": "meta-llama/Llama-3.2-3B",
    "meta-llama/Llama-3.2-1B-Instruct": "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B-Instruct": "meta-llama/Llama-3.2-3B",
    "Qwen3-32B": "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B-Base": "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "Qwen/Qwen3-30B-A3B",
    "Qwen2.5-7B-Instruct (ReTool SFT)": "Qwen/Qwen2.5-7B",
    "PrimeIntellect/INTELLECT-3": "zai-org/GLM-4.5-Air",
    "allenai/OLMo-3-7B-Instruct": "allenai/Olmo-3-1025-7B",
    "Qwen/Qwen3.5-9B": "Qwen/Qwen3.5-9B",
}
"""Models of the catalog's shapes under other names."""


def card(row: Row) -> str:
    """The catalog's card of a row."""
    return CARDS.get(row["gpu"], str(row["gpu"]))


def model(row: Row) -> str:
    """The catalog's model of a row."""
    return MODELS.get(row["model"], str(row["model"]))


def parallel(row: Row) -> str:
    """Which parallelism of training a plan cannot say; empty for none."""
    told = row["parallel"]
    for key, words in (
        ("train_tp", "tensor"),
        ("train_pp", "pipeline"),
        ("train_cp", "context"),
        ("train_ep", "expert"),
    ):
        if isinstance(told.get(key), int) and told[key] > 1:
            return words
    return ""
