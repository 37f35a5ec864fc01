"""Published speeds that set no efficiency: each lies inside the stated error.

``python -m pytest tests/accuracy/test_published_times.py -s`` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from accuracy.timings.engine_passes import decode_step_seconds, prefill_seconds
from planner.catalog import Architecture, gpu, model
from planner.catalog.efficiencies import Key, efficiencies
from planner.formulas.compute import backward_flops, compute_seconds, forward_flops

LLAMA_8B = model("meta-llama/Llama-3.1-8B").architecture
LLAMA_70B = model("meta-llama/Llama-3.1-70B").architecture
# meta-llama/Llama-2-13b-hf config.json.
LLAMA_2_13B = Architecture(
    family="llama",
    hidden=5120,
    layers=40,
    intermediate=13824,
    heads=40,
    kv_heads=40,
    head_dim=128,
    vocab=32000,
    max_positions=4096,
    tied=False,
    norm="rmsnorm",
    activation="silu",
    gated=True,
)
TITAN_H100 = "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md"
TITAN_A100 = "pytorch/torchtitan docs/performance.md"
GPT_FAST = "meta-pytorch/gpt-fast README.md"


ENGINES = (0.9, 1.25)
"""Published over predicted where an engine decodes: those below scheduled between their steps."""


@dataclass(frozen=True)
class Published:
    """One published figure, turned into seconds, and what we say to it."""

    what: str
    source: str
    card: str
    seconds: float
    predicted: float
    keys: tuple[Key, ...]

    @property
    def signed_error(self) -> float:
        return self.predicted / self.seconds - 1

    @property
    def between(self) -> tuple[float, float]:
        """Published over predicted by the shares that the figure rests on."""
        spreads = [efficiencies()[key].spread(gpu(self.card)) for key in self.keys] or [ENGINES]
        return min(low for low, _ in spreads), max(high for _, high in spreads)


def training(what, source, card, arch, row_tokens, tokens_per_second, recompute=False):
    """Seconds per row of one GPU; what is hidden or exposed of FSDP is inside the share."""
    sizes = {"tokens": row_tokens, "row_tokens": row_tokens, "head": True}
    forward = forward_flops(arch, **sizes)
    backward = backward_flops(arch, **sizes, recompute=recompute, weights_train=True)
    both = {"flops": forward + backward, "dtype": "bf16", "key": "training-compute"}
    return Published(
        what,
        source,
        card,
        row_tokens / tokens_per_second,
        compute_seconds(gpu(card), **both),
        ("training-compute",),
    )


def decoding(
    what, source, card, arch, seconds, *, sequences, prompt_tokens, response_tokens, tensor_parallel
):
    """A prefill and every token's step, at the context half way."""
    engine = {"tensor_parallel": tensor_parallel, "dtype": "bf16"}
    context = prompt_tokens + response_tokens / 2
    step = decode_step_seconds(
        arch, gpu(card), sequences=sequences, context_tokens=context, **engine
    )
    first = prefill_seconds(
        arch, gpu(card), prompts=sequences, prompt_tokens=prompt_tokens, **engine
    )
    return Published(what, source, card, seconds, first + response_tokens * step, ())


FIGURES = [
    training("Llama 3.1 8B, 8 GPUs, eager", TITAN_H100, "h100-80gb", LLAMA_8B, 8192, 5762),
    training("Llama 3.1 8B, 8 GPUs, compiled", TITAN_H100, "h100-80gb", LLAMA_8B, 8192, 6667),
    training("Llama 3.1 8B, 128 GPUs, compiled", TITAN_H100, "h100-80gb", LLAMA_8B, 8192, 6514),
    training("Llama 3 70B, 64 GPUs", TITAN_A100, "a100-80gb", LLAMA_70B, 8192, 331, True),
    training("Llama 2 13B, 64 GPUs", TITAN_A100, "a100-80gb", LLAMA_2_13B, 4096, 2162),
    decoding(
        "Llama 3 8B, 256 prompts of 256, 256 tokens each, vLLM",
        "github.com/vllm-project/vllm/pull/11078 (44.39 requests/s)",
        "h100-80gb",
        LLAMA_8B,
        256 / 44.39,
        sequences=256,
        prompt_tokens=256,
        response_tokens=256,
        tensor_parallel=1,
    ),
    decoding(
        "Llama 3.1 70B on 8 GPUs, batch 1",
        GPT_FAST,
        "a100-80gb",
        LLAMA_70B,
        200 / 58.78,
        sequences=1,
        prompt_tokens=5,
        response_tokens=200,
        tensor_parallel=8,
    ),
    decoding(
        "Llama 3.1 8B on 4 GPUs, batch 1",
        GPT_FAST,
        "a100-80gb",
        LLAMA_8B,
        200 / 217.21,
        sequences=1,
        prompt_tokens=5,
        response_tokens=200,
        tensor_parallel=4,
    ),
    decoding(
        "Qwen2.5 72B on 2 GPUs, batch 1, 30.9 ms a token, vLLM",
        "github.com/tenstorrent/tt-inference-server/issues/143",
        "h100-80gb",
        model("Qwen/Qwen2.5-72B").architecture,
        0.035 + 1024 * 0.0309,
        sequences=1,
        prompt_tokens=128,
        response_tokens=1024,
        tensor_parallel=2,
    ),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.what)
def test_a_published_speed_lies_inside_the_stated_error(figure):
    low, high = figure.between
    print(f"{figure.what} | {figure.card} | {figure.signed_error:+.0%} | {low:.2f} to {high:.2f}")
    assert low <= figure.seconds / figure.predicted <= high


# Rows of mosaicml/llm-foundry's tables that set the ends of the training interval:
# name, hidden, layers, row, recomputed, tokens per second and GPU, share stated in the file.
MPT_ENDS = [
    ("h100-80gb", 1536, 24, 8192, False, 41825, "9.0", "low"),
    ("h100-80gb", 5120, 40, 1024, True, 5502, "9.0", "high"),
    ("a100-80gb", 1536, 24, 512, False, 29446, "8.0", "low"),
    ("a100-80gb", 5120, 40, 1024, True, 2330, "8.0", "high"),
]


@pytest.mark.parametrize("row", MPT_ENDS, ids=lambda row: f"{row[0]}-{row[-1]}")
def test_the_training_interval_ends_where_its_table_does(row):
    card, hidden, layers, row_tokens, recompute, tokens_per_second, capability, end = row
    heads = hidden // 128
    mpt = replace(
        LLAMA_2_13B,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        intermediate=4 * hidden,
        vocab=50368,
        gated=False,
        tied=True,
    )
    figure = training("", "", card, mpt, row_tokens, tokens_per_second, recompute)
    span = efficiencies()["training-compute"].intervals[capability]
    reached = span.typical * figure.predicted / figure.seconds
    assert reached == pytest.approx(getattr(span, end), abs=0.006)
