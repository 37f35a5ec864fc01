"""Density-weighted GRPO on TRL: prompts unlike the others are drawn more often.

One subclass of TRL's GRPOTrainer, with another order of prompts and nothing else: rollout, reward,
loss and update are TRL's. A prompt's weight is its mean distance to its nearest neighbours, among
embeddings of the model that training begins with. They are computed here before anything else, or
read from a run of ``python -m planner sampling run`` (--use-precomputed-embeddings DIR), which is
refused where it is stale. Start it with launch.sh.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from planner.launch.pieces.around_trl import arguments, rows, started, trained
from planner.launch.pieces.preflight import check_card, check_room

PLAN: dict[str, Any] = {}

POOLING = {"hidden": "mean hidden states", "logits": "mean logits"}
TILE = 4096
"""Prompts whose distances are computed at once, to as many others: 64 MiB of distances."""


class DensitySampler(RepeatSampler):
    """TRL's repetition of prompts (a group of responses, reused over updates), drawn by weight.

    As many draws an epoch as there are prompts, with replacement; every process draws the same.
    """

    def __init__(self, weights: torch.Tensor, **given: Any) -> None:
        super().__init__(**given)
        self.chances = weights.double().cumsum(0)

    def __iter__(self) -> Iterator[int]:
        points = torch.rand(self.num_samples, generator=self.generator, dtype=torch.float64)
        drawn = torch.searchsorted(self.chances, points * self.chances[-1], right=True)
        drawn = drawn.clamp_(max=self.num_samples - 1)
        for start in range(0, self.num_samples - self.batch_size + 1, self.batch_size):
            batch = drawn[start : start + self.batch_size].tolist()
            for _ in range(self.repeat_count):
                for index in batch:
                    for _ in range(self.mini_repeat_count):
                        yield index


class DensityTrainer(GRPOTrainer):
    """TRL's GRPO on prompts drawn by these weights [prompts]."""

    def __init__(self, weights: torch.Tensor, **given: Any) -> None:
        self.weights = weights
        super().__init__(**given)

    def _get_train_sampler(self, dataset: Any = None) -> DensitySampler:
        usual: Any = super()._get_train_sampler(dataset)
        return DensitySampler(
            self.weights,
            data_source=usual.data_source,
            mini_repeat_count=usual.mini_repeat_count,
            batch_size=usual.batch_size,
            repeat_count=usual.repeat_count,
            seed=usual.seed,
        )


def token_ids(tokenizer: Any, prompts: Sequence[Any], longest: int) -> list[list[int]]:
    """Ids of each prompt, text or chat, cut to the plan's length."""
    texts = [
        prompt
        if isinstance(prompt, str)
        else tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        for prompt in prompts
    ]
    found: list[list[int]] = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
    if not all(found):
        raise SystemExit(f"dataset: row {found.index([])} has a prompt without any token.")
    return found


@torch.inference_mode()
def embeddings(
    model: Any, ids: Sequence[Sequence[int]], pooling: str, batch: int, device: torch.device
) -> torch.Tensor:
    """Unit vectors [prompts, width] in host RAM, 4 bytes a value.

    The mean over a prompt's own tokens: padding is masked, so a vector does not depend on the
    batch. Long prompts come first, so that memory peaks at once.
    """
    order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
    found: torch.Tensor | None = None
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        longest = len(ids[places[0]])
        padded = torch.zeros(len(places), longest, dtype=torch.long)
        mask = torch.zeros_like(padded)
        for row, place in enumerate(places):
            padded[row, : len(ids[place])] = torch.tensor(ids[place])
            mask[row, : len(ids[place])] = 1
        given = {"input_ids": padded.to(device), "attention_mask": mask.to(device)}
        if pooling == "logits":
            values = model(**given, use_cache=False).logits
        else:
            values = model.base_model(**given, use_cache=False).last_hidden_state
        shares = given["attention_mask"] / given["attention_mask"].sum(1, keepdim=True)
        # A product of matrices: no second tensor of all tokens is made.
        means = torch.bmm(shares.to(values.dtype).unsqueeze(1), values).squeeze(1).float()
        del values
        if found is None:
            found = torch.empty(len(ids), means.shape[1])
        found[places] = torch.nn.functional.normalize(means, dim=1).cpu()
    assert found is not None
    return found


def mean_distances(vectors: torch.Tensor, count: int, device: torch.device) -> torch.Tensor:
    """Mean distance [prompts] of unit vectors to their nearest others, exact; never to itself.

    Tile by tile: memory does not grow with the square of the prompts, time does.
    """
    total, count = len(vectors), min(count, len(vectors) - 1)
    means = torch.empty(total, dtype=torch.float64)
    for start in range(0, total, TILE):
        some = vectors[start : start + TILE].to(device)
        nearest = torch.empty(len(some), 0, device=device)
        for begin in range(0, total, TILE):
            others = vectors[begin : begin + TILE].to(device)
            apart = 2 - 2 * some @ others.T
            apart.masked_fill_(apart < 1e-6, 0)  # duplicates, but for rounding
            if begin == start:
                apart.fill_diagonal_(torch.inf)
            together = torch.cat([nearest, apart], 1)
            nearest = together.topk(min(count, together.shape[1]), largest=False).values
        means[start : start + TILE] = nearest.double().sqrt().mean(1).cpu()
    return means


def weights_of(distances: torch.Tensor, favour: str) -> torch.Tensor:
    """Chances [prompts], which sum to 1: w ~ d where rare prompts are favoured, else w ~ 1 / d.

    A prompt with as many duplicates as neighbours counts as the nearest of the others.
    """
    apart = distances[distances > 0]
    if not len(apart):
        return torch.full((len(distances),), 1 / len(distances), dtype=torch.float64)
    floored = distances.clamp(min=float(apart.min()))
    raw = floored if favour == "rare" else apart.min() / floored
    return raw / raw.sum()


def computed(options: argparse.Namespace, prompts: Sequence[Any], device: Any) -> torch.Tensor:
    """Weights of the prompts, by the model that training begins with; it is freed after."""
    fix = "Pass --use-precomputed-embeddings, of a run on another machine, or --anyway."
    needed = PLAN["embedding_bytes"][options.pooling]
    check_room("The model that embeds", needed, device, options.anyway, fix)
    tokenizer = AutoTokenizer.from_pretrained(
        options.model, revision=options.revision, trust_remote_code=False
    )
    model = AutoModelForCausalLM.from_pretrained(
        options.model,
        revision=options.revision,
        dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,
        use_safetensors=True,
        trust_remote_code=False,
    )
    ids = token_ids(tokenizer, prompts, PLAN["prompt_tokens"])
    vectors = embeddings(
        model.to(device).eval(), ids, options.pooling, options.embedding_batch, device
    )
    del model
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return weights_of(mean_distances(vectors, options.neighbours, device), options.favour)


def key_of(prompt: Any) -> str:
    """What a prompt is known by: digits of its text's SHA-256, of a chat every role and content."""
    whole = isinstance(prompt, str)
    parts = [prompt] if whole else [m[part] for m in prompt for part in ("role", "content")]
    return hashlib.sha256("".join(f"{part}\n" for part in parts).encode()).hexdigest()[:16]


def identity_of(model: str, revision: str | None) -> str:
    """The model as a sampling run knows it: a commit of the Hub, or a hash of a folder's files."""
    folder = Path(model)
    if not folder.is_dir():
        from huggingface_hub import hf_hub_download

        config = hf_hub_download(model, "config.json", revision=revision)
        return f"revision {Path(config).parent.name}"
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    total = hashlib.sha256()
    for name in ("config.json", *names):
        with open(folder / name, "rb") as file:
            total.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return f"sha256 {total.hexdigest()}"


def stale(made: Mapping[str, Any], options: argparse.Namespace) -> list[str]:
    """Why a sampling run does not belong to this one; empty when it does."""
    wanted = {
        "identity": identity_of(options.model, options.revision),
        "pooling": POOLING[options.pooling],
        "neighbours": options.neighbours,
        "favour": options.favour,
        "prompt_tokens": PLAN["prompt_tokens"],
    }
    if Path(options.dataset).is_file():
        with open(options.dataset, "rb") as file:
            wanted["prompts_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return [
        f"{name} was {str(made.get(name))[:80]}, is {str(value)[:80]}"
        for name, value in wanted.items()
        if made.get(name) != value
    ]


def precomputed(options: argparse.Namespace, prompts: Sequence[Any]) -> torch.Tensor:
    """Weights of a sampling run's folder; stops with a sentence where they are stale."""
    import pyarrow.parquet

    path = Path(options.use_precomputed_embeddings) / "weights.parquet"
    if not path.is_file():
        raise SystemExit(
            f"--use-precomputed-embeddings: {path} is not there; give the folder of a completed "
            "`python -m planner sampling run`."
        )
    try:
        table = pyarrow.parquet.read_table(path, columns=["key", "weight"])
        made = json.loads((table.schema.metadata or {})[b"headroom"])
        weights = torch.from_numpy(np.array(table["weight"], dtype=np.float64))
    except (OSError, KeyError, ValueError) as error:
        raise SystemExit(f"--use-precomputed-embeddings: {path} cannot be read: {error}") from None
    reasons = stale(made, options)
    keys = table["key"].to_pylist()
    if len(keys) != len(prompts):
        reasons.append(f"it has {len(keys)} prompts, the data set {len(prompts)}")
    else:
        others = [n for n, prompt in enumerate(prompts) if keys[n] != key_of(prompt)]
        if others:
            reasons.append(f"{len(others)} prompts are others, the first in row {others[0]}")
    if reasons:
        raise SystemExit(
            f"--use-precomputed-embeddings: {path} is stale: {'; '.join(reasons)}. Run "
            "`python -m planner sampling run` again, or leave the flag out to compute the weights "
            "here."
        )
    if not bool(torch.isfinite(weights).all()) or weights.min() < 0 or weights.sum() <= 0:
        raise SystemExit(f"--use-precomputed-embeddings: {path} has weights that are none.")
    return weights


def weighed(options: argparse.Namespace, prompts: Sequence[Any], device: Any) -> torch.Tensor:
    """Weights [prompts], the same in every process: one computes or checks, all read its file."""
    state, path = PartialState(cpu=device.type == "cpu"), Path(options.output) / "weights.npy"
    if state.is_main_process:
        given = options.use_precomputed_embeddings
        found = precomputed(options, prompts) if given else computed(options, prompts, device)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, found.numpy())
        most, least = float(found.max() * len(found)), float(found.min() * len(found))
        print(f"Weights: a prompt is drawn {least:.2f} to {most:.2f} times an epoch.")
    state.wait_for_everyone()
    return torch.from_numpy(np.load(path, allow_pickle=False))


def rewards() -> list[Any]:
    """reward.py's functions, or the reward model."""
    model = PLAN.get("reward_model_name_or_path")
    names = [name.split(".") for name in PLAN.get("reward_funcs", ())]
    found = [getattr(importlib.import_module(module), function) for module, function in names]
    return [model] if model else found


def main() -> None:
    """One run, in each of the processes that ``accelerate launch`` starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--use-precomputed-embeddings", metavar="DIR", help="a sampling run's folder"
    )
    parser.add_argument("--pooling", choices=tuple(POOLING), default="hidden")
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--favour", choices=("rare", "common"), default="rare")
    batch = PLAN["embedding_batch"]
    parser.add_argument("--embedding-batch", type=int, default=batch, help="prompts of a forward")
    options, device = started(parser, PLAN)
    check_card(PLAN, device, options.anyway)
    if options.dry:
        return
    prompts = rows(options)["prompt"]
    weights = weighed(options, list(prompts), device)
    training, given = arguments(PLAN, options)
    trained(DensityTrainer(weights, args=training, reward_funcs=rewards(), **given), options)


if __name__ == "__main__":
    main()
