"""Tiny models and prompts on disk, as a program loads them: safetensors and a small tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FAMILY = "qwen3"
PROMPT, RESPONSE = 21, 4


def config() -> dict[str, Any]:
    """The models' config.json."""
    from accuracy.tiny import CONFIGS

    return {**CONFIGS[FAMILY], "model_type": FAMILY, "num_hidden_layers": 2}


def write(folder: Path) -> None:
    """``policy`` and ``reward`` with random weights, ``prompts.jsonl`` and ``pairs.jsonl``."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    settings = transformers.AutoConfig.for_model(**config(), num_labels=1)
    kinds = {
        "policy": transformers.AutoModelForCausalLM,
        "reward": transformers.AutoModelForSequenceClassification,
    }
    for seed, (name, kind) in enumerate(kinds.items()):
        torch.manual_seed(seed)
        model = kind.from_config(settings, dtype=torch.float32)
        with torch.no_grad():  # transformers starts near zero, where every token is as likely
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.15)
        model.save_pretrained(folder / name)
    words = {f"w{place}": place for place in range(settings.vocab_size)}
    words |= {"<pad>": words.pop("w0"), "<end>": words.pop("w2")}
    inner = Tokenizer(models.WordLevel(words, unk_token="w3"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>"
    ).save_pretrained(folder / "policy")

    def text(first: int, count: int) -> str:
        return " ".join(f"w{5 + (7 * first + place) % 900}" for place in range(count))

    rows = [
        # Every second prompt is as long as planned, so every micro-batch has one of those.
        {
            "prompt": text(place, PROMPT - 3 * (place % 2)),
            # The tokenizer's end is one more.
            "chosen": text(place + 40, RESPONSE - 1 - place % 2),
            "rejected": text(place + 80, RESPONSE - 1),
            "answer": "w5",
        }
        for place in range(6)
    ]
    long = {"prompt": text(3, PROMPT), "chosen": text(300, RESPONSE - 1)}
    whole = [{**row, **long} for row in rows]
    texts = [{"text": text(place, PROMPT + RESPONSE - 1 - place % 2)} for place in range(6)]
    full = [{"text": text(place, PROMPT + RESPONSE - 1)} for place in range(6)]
    files = {"rows": rows, "whole": whole, "texts": texts, "full-texts": full}
    for name, found in ((f"{each}.jsonl", files[each]) for each in files):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in found))

