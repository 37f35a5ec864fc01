"""The exported samplers, run by TRL's trainer class and by verl's dataset hook."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from planner.sampling.ask.prompts import key_of
from planner.sampling.ask.result import Provenance
from planner.sampling.ask.samplers import samplers
from planner.sampling.ask.weights import metadata
from planner.sampling.run.vectors import whole

ROOT = Path(__file__).parents[3]
WEIGHTS = (0.1, 0.0, 0.6, 0.3)
TEXTS = ["a", "b", "c", "d"]
CHATS = [[{"role": "user", "content": text}] for text in TEXTS]


def weights_file(path: Path, prompts: Sequence[Any], weights: Sequence[float] = WEIGHTS) -> Path:
    made = Provenance(
        model="m", identity="revision abc", prompts_sha256="0" * 64, prompts=len(prompts),
        pooling="mean logits", width=8, dtype="fp32", model_dtype="fp32", prompt_tokens=8,
        neighbours=2, index="exact", lists=0, probes=0, favour="rare", created="2026-11-22",
    )  # fmt: skip
    keys = [
        key_of(one if isinstance(one, str) else tuple((m["role"], m["content"]) for m in one))
        for one in prompts
    ]
    table = pa.table({"key": keys, "weight": list(weights)})
    whole(path, table.replace_schema_metadata(metadata(made)))
    return path


def exported(framework: str, place: Path) -> Path:
    """The file as a person gets it, in a folder of its own."""
    found = next(one for one in samplers() if one.framework == framework)
    assert "planner" not in found.text
    path = place / found.file_name
    path.write_text(found.text, "utf-8")
    return path


def module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("prompts", [TEXTS, CHATS], ids=["text", "chats"])
def test_grpo_trainers_train_sampler_draws_groups_by_weight(
    prompts: list[Any], tmp_path: Path
) -> None:
    from datasets import Dataset

    ours = module(exported("trl", tmp_path))
    # TRL's own method makes the sampler, of what a trainer has when it is asked for one.
    trainer = object.__new__(ours.DensityGRPOTrainer)
    many = prompts * 500
    path = weights_file(tmp_path / "w.parquet", many, np.tile(WEIGHTS, 500) / 500)
    vars(trainer).update(
        _weights_file=str(path),
        _identity="revision abc",
        train_dataset=Dataset.from_dict({"prompt": many}),
        num_generations=4,
        num_iterations=2,
        shuffle_dataset=True,
        args=SimpleNamespace(generation_batch_size=8, steps_per_generation=2, seed=1),
    )
    sampler = trainer._get_train_sampler()
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 2_000 * 4 * 4
    blocks = np.array(drawn).reshape(-1, 4, 8)  # a batch of two prompts, four times
    assert (blocks == blocks[:, :1]).all()
    groups = blocks[:, 0].reshape(-1, 4)
    assert (groups == groups[:, :1]).all()
    shares = Counter((groups[:, 0] % 4).tolist())
    assert [shares[n] / 2_000 for n in range(4)] == pytest.approx(WEIGHTS, abs=0.04)
    assert shares[1] == 0
    assert list(sampler) != drawn  # another epoch, another draw
    assert list(trainer._get_train_sampler()) == drawn  # every process draws the same


def test_trl_refuses_weights_of_other_prompts_or_of_another_model(tmp_path: Path) -> None:
    ours = module(exported("trl", tmp_path))
    path = str(weights_file(tmp_path / "w.parquet", TEXTS))
    assert ours.weights_of(path, TEXTS).tolist() == list(WEIGHTS)
    for prompts, identity, said in (
        (TEXTS[:3], "", "4 weights for 3 prompts"),
        (["a", "b", "x", "d"], "", "prompt 2 is another"),
        (TEXTS, "revision other", "made with revision abc"),
    ):
        with pytest.raises(ValueError, match="is stale") as error:
            ours.weights_of(path, prompts, identity)
        assert said in str(error.value)


VERL = """
import json, sys
sys.path.insert(0, {launch!r})
from verl_worker import Finder
sys.meta_path.insert(0, Finder())
from omegaconf import OmegaConf
from verl.utils.dataset.rl_dataset import get_dataset_class

class Tokenizer:
    def apply_chat_template(self, messages, **more):
        return [1] * (99 if messages[0]["content"] == "d" else 3)

config = OmegaConf.create(dict(
    custom_cls=dict(path={path!r}, name="DensityDataset"), train_files=[{train!r}], seed=3,
    density_weights={weights!r}, density_draws=500, max_prompt_length=10, cache_dir={cache!r},
    filter_overlong_prompts_workers=None,
))

def dataset(file):  # as create_rl_dataset of verl 0.9.1 makes it, training or not
    return get_dataset_class(config)(
        data_files=[file], tokenizer=Tokenizer(), processor=None, config=config, max_samples=-1
    )

train, again = dataset({train!r}), dataset({train!r})
rows = [row[0]["content"] for row in train.dataframe["prompt"]]
assert rows == [row[0]["content"] for row in again.dataframe["prompt"]]
counts = {{word: rows.count(word) / len(rows) for word in "abcd"}}
found = [type(train).__mro__[1].__name__, len(train), counts, len(dataset({test!r}))]
config.train_files = [{test!r}]
try:
    dataset({test!r})
except ValueError as error:
    print(json.dumps([*found, str(error)]))
"""


def test_verls_dataset_is_the_draw_and_its_filter_keeps_each_weight(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    train, test = tmp_path / "train.parquet", tmp_path / "test.parquet"
    pq.write_table(pa.table({"prompt": CHATS}), train)
    pq.write_table(pa.table({"prompt": CHATS[:2]}), test)
    code = VERL.format(
        launch=str(ROOT / "tests" / "launch"),
        path=str(exported("verl", tmp_path)),
        weights=str(weights_file(tmp_path / "w.parquet", CHATS)),
        train=str(train),
        test=str(test),
        cache=str(tmp_path / "cache"),
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HOME": str(tmp_path / "hf")},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    base, size, shares, validation, stale = json.loads(done.stdout.splitlines()[-1])
    assert (base, size, validation) == ("RLHFDataset", 1_500, 2)
    # d is too long for verl and is never drawn; a and c share what is left.
    assert shares["b"] == shares["d"] == 0
    assert shares["c"] == pytest.approx(6 / 7, abs=0.04)
    assert "is stale" in stale
