"""What the host needs to launch: one tiny kernel, and transformers' generate. Imports torch.

The model is so narrow that no kernel takes time, so a token costs what its launches cost; it has
as many layers as a model of 7B, since a part of that cost is paid once per token.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import torch

from planner.benchmark.run.case import Case, Run, Sizes

WIDTH, HEADS, VOCABULARY = 64, 4, 1024
PROMPT_TOKENS = 8


def cases(sizes: Sizes, device: str) -> Iterator[Case]:
    """A kernel on one value, and two lengths of generation, whose difference is whole tokens."""
    yield Case(part="launches", name="one kernel", make=partial(_kernel, device))
    for tokens in sizes.generate_tokens:
        yield Case(
            part="launches",
            name="generate",
            sizes={"layers": sizes.generate_layers, "tokens": tokens},
            make=partial(_generate, sizes.generate_layers, tokens, device),
        )


def _kernel(device: str) -> Run:
    return partial(torch.zeros(1, device=device).add_, 1)


@lru_cache(maxsize=1)
def _model(layers: int, device: str) -> Any:
    import transformers

    settings = transformers.Qwen2Config(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        vocab_size=VOCABULARY,
    )
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
    return model.eval()


def forget() -> None:
    """Free the model."""
    _model.cache_clear()


def _generate(layers: int, tokens: int, device: str) -> Run:
    prompt = torch.ones(1, PROMPT_TOKENS, dtype=torch.long, device=device)
    return partial(
        _model(layers, device).generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        do_sample=True,
        pad_token_id=0,
    )
