"""GRPO on prompts that are drawn by their density weights, with TRL (1.16).

    from on_trl import DensityGRPOTrainer

    trainer = DensityGRPOTrainer(
        model=…, reward_funcs=…, args=GRPOConfig(…), train_dataset=dataset,
        weights_file="weights.parquet",
    )

The dataset's rows are those of the file that the weights were made of, in its order; another
dataset is refused. ``identity`` ("revision …" or "sha256 …", as the weights file has it) refuses
weights of another model. Needs torch, trl and pyarrow.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.parquet as pq
import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import RepeatSampler


def key_of(prompt: Any) -> str:
    """What a prompt is known by: the SHA-256 of its text, of a chat every role and content."""
    chat = [] if isinstance(prompt, str) else prompt
    parts = [part for each in chat for part in (each["role"], each["content"])] or [prompt]
    return hashlib.sha256("".join(f"{part}\n" for part in parts).encode("utf-8")).hexdigest()[:16]


def weights_of(path: str, prompts: Sequence[Any], identity: str = "") -> torch.Tensor:
    """The weight of each prompt, float64; ValueError where the file is of others."""
    table = pq.read_table(path, columns=["key", "weight"])
    made = json.loads(table.schema.metadata[b"headroom"])
    if identity and made["identity"] != identity:
        raise ValueError(f"{path} is stale: made with {made['identity']}, not {identity}.")
    if len(table) != len(prompts):
        raise ValueError(f"{path} is stale: {len(table)} weights for {len(prompts)} prompts.")
    for row, (key, prompt) in enumerate(zip(table["key"].to_pylist(), prompts, strict=True)):
        if key != key_of(prompt):
            raise ValueError(f"{path} is stale: prompt {row} is another one.")
    return torch.tensor(table["weight"].to_numpy(), dtype=torch.float64)


class WeightedRepeatSampler(RepeatSampler):
    """TRL's repetition of prompts (a group of responses, reused over updates), drawn by weight.

    As many draws an epoch as there are prompts, with replacement; every process draws the same.
    """

    def __init__(self, *args: Any, weights: torch.Tensor, **more: Any) -> None:
        super().__init__(*args, **more)
        self.cumulative = weights.cumsum(0)
        if not hasattr(self, "generator"):
            self.generator = torch.Generator()
            self.generator.manual_seed(self.seed or 0)

    def __iter__(self) -> Iterator[int]:
        chance = torch.rand(self.num_samples, generator=self.generator, dtype=torch.float64)
        drawn = torch.searchsorted(self.cumulative, chance * self.cumulative[-1], right=True)
        drawn = drawn.clamp_(max=self.num_samples - 1)
        for start in range(0, self.num_samples - self.batch_size + 1, self.batch_size):
            batch = drawn[start : start + self.batch_size].tolist()
            for _ in range(self.repeat_count):
                for index in batch:
                    for _ in range(self.mini_repeat_count):
                        yield index


class DensityGRPOTrainer(GRPOTrainer):
    """TRL's GRPO trainer with another order of prompts, and nothing else."""

    def __init__(self, *args: Any, weights_file: str, identity: str = "", **more: Any) -> None:
        self._weights_file, self._identity = weights_file, identity
        super().__init__(*args, **more)

    def _get_train_sampler(self, dataset: Any = None) -> WeightedRepeatSampler:
        own: Any = super()._get_train_sampler(dataset)
        weights = weights_of(self._weights_file, own.data_source["prompt"], self._identity)
        return WeightedRepeatSampler(
            data_source=own.data_source,
            mini_repeat_count=own.mini_repeat_count,
            batch_size=own.batch_size,
            repeat_count=own.repeat_count,
            seed=own.seed,
            weights=weights,
        )
