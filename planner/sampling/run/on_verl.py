"""Training prompts that are drawn by their density weights, with verl (0.9.1).

verl 0.9.1 makes its sampler itself (``create_rl_sampler``: in order, or shuffled) and takes no
other; its hook is the dataset's class, so this dataset *is* the draw. On verl's command line:

    data.custom_cls.path=on_verl.py data.custom_cls.name=DensityDataset
    +data.density_weights=weights.parquet +data.density_draws=1 data.seed=1

``density_draws`` is how often the dataset's size is drawn: give it the epochs, and
``trainer.total_epochs=1``, so that no epoch repeats another's draw. Drawing is by ``data.seed``:
a run that is resumed finds the same rows. ``data.train_files`` are the prompts that the weights
were made of, in their order; others are refused. Validation is left alone. Needs pyarrow.
"""

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from verl.utils.dataset.rl_dataset import RLHFDataset


def key_of(prompt: Any) -> str:
    """What a prompt is known by: the SHA-256 of its text, of a chat every role and content."""
    chat = [] if isinstance(prompt, str) else prompt
    parts = [part for each in chat for part in (each["role"], each["content"])] or [prompt]
    return hashlib.sha256("".join(f"{part}\n" for part in parts).encode("utf-8")).hexdigest()[:16]


class DensityDataset(RLHFDataset):
    """verl's dataset with its rows drawn by weight, with replacement, before training begins."""

    def maybe_filter_out_long_prompts(self, dataframe: Any = None) -> Any:
        """Filter as verl does, then draw; weights follow their rows through the filter."""
        given = self.config.get("train_files")
        train = [given] if isinstance(given, str) else list(given or [])
        if [str(file) for file in self.original_data_files] != [str(file) for file in train]:
            return super().maybe_filter_out_long_prompts(dataframe)  # validation
        path = str(self.config.get("density_weights"))
        table = pq.read_table(path, columns=["key", "weight"])
        made = json.loads(table.schema.metadata[b"headroom"])
        keys = [key_of(prompt) for prompt in dataframe[self.prompt_key]]
        if keys != table["key"].to_pylist():
            raise ValueError(f"{path} is stale: its {made['prompts']} prompts are others.")
        dataframe = dataframe.add_column("density_weight", table["weight"].to_numpy())
        dataframe = super().maybe_filter_out_long_prompts(dataframe)
        weights = np.asarray(dataframe["density_weight"], np.float64)
        draws = int(self.config.get("density_draws", 1)) * len(weights)
        chance = np.random.default_rng(self.config.get("seed") or 0)
        drawn = chance.choice(len(weights), size=draws, p=weights / weights.sum())
        return dataframe.remove_columns("density_weight").select(drawn)
