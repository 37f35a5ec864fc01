"""A tiny model with random weights, its tokenizer of whole words, and files of prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from planner.sampling.ask.process import RUNS
from planner.sampling.ask.request import SamplingRequest, request_of
from planner.sampling.ask.setup import prepared
from planner.sampling.ask.store import SamplingFolder
from planner.sampling.run.job import Job
from planner.sampling.run.vectors import F32

WORDS = 60
HIDDEN = 16


def model(folder: Path) -> Path:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<unk>": 0, "<eos>": 1, **{f"w{n}": n + 2 for n in range(WORDS)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=WORDS + 4,
        hidden_size=HIDDEN,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.4,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def file_of(path: Path, prompts: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps({"prompt": one}) + "\n" for one in prompts), "utf-8")
    return path


def some(count: int) -> list[str]:
    """Prompts of different lengths."""
    chance = np.random.default_rng(0)
    return [
        " ".join(f"w{word}" for word in chance.integers(0, WORDS, chance.integers(2, 20)))
        for _ in range(count)
    ]


def run(
    place: Path, model: Path, prompts: Iterable[Any], **choices: Any
) -> tuple[SamplingRequest, SamplingFolder]:
    """A run's folder with its request; nothing has begun."""
    place.mkdir(exist_ok=True)
    file = file_of(place / "prompts.jsonl", prompts)
    given = {"calibration_seconds": 0.2, "prompt_tokens": 32, **choices}
    request = request_of(prompts=str(file), model=str(model), **given)
    return request, RUNS.new(request, place / "data")


def job(place: Path, model: Path, prompts: Iterable[Any], **choices: Any) -> Job:
    """The job of a run that was prepared."""
    request, folder = run(place, model, prompts, **choices)
    prepared(request, folder.path)
    return Job.of(folder.path)


def unit(rows: int, width: int, seed: int = 0) -> F32:
    found = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found
