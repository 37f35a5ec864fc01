"""Rollouts without an engine, run for real: transformers' own ``generate`` on tiny models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import GenerationMixin

from accuracy.real_step import DTYPES
from evidence import Evidence
from live_bytes import LiveBytes
from planner import catalog
from planner.estimate import estimate
from planner.plan import Plan
from test_real_steps import CONFIGS, CUBLAS, MIXTURES


def real_peak(config: dict[str, Any], plan: Plan, sequences: int) -> int:
    """Most live bytes while ``sequences`` prompts, one of them padded, are answered."""
    import transformers

    torch.manual_seed(0)
    dtype = DTYPES[plan.dtype]
    settings = transformers.AutoConfig.for_model(**config, torch_dtype=str(dtype)[6:])
    tracker = LiveBytes()
    with tracker, torch.no_grad():
        torch.set_default_dtype(dtype)
        try:
            model = transformers.AutoModelForCausalLM.from_config(
                settings, attn_implementation=plan.attention
            )
        finally:
            torch.set_default_dtype(torch.float32)
        model.eval()
        ids = torch.randint(3, config["vocab_size"], (sequences, plan.prompt_tokens))
        mask = torch.ones_like(ids)
        mask[0, 0] = 0
        tracker.reset_peak()
        model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=plan.response_tokens,
            min_new_tokens=plan.response_tokens,
            pad_token_id=0,
        )
    return tracker.peak


@contextmanager
def decoding(model: Any) -> Iterator[None]:
    """Experts while decoding, as transformers sets them on a GPU and not on a CPU."""
    model.set_experts_implementation("batched_mm")
    try:
        yield
    finally:
        model.set_experts_implementation("grouped_mm")


FAMILIES = ("llama", "qwen3", "gemma3_text", "qwen3_moe")
DTYPE_NAMES = ("bf16", "fp32")
SIZES = ((16, 64, 1000), (96, 8, 1000), (16, 128, 100))
EVIDENCE = Evidence(
    "generation",
    of=("test_real_generation",),
    kinds={
        f"{family}-{dtype}-{prompt}-{response}-{vocab}": family
        for family in FAMILIES
        for dtype in DTYPE_NAMES
        for prompt, response, vocab in SIZES
    },
    within=5e-4,
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize(
    ("prompt", "response", "vocab"), SIZES, ids=["sampling", "prefill", "cache"]
)
def test_rollout_peaks_where_generate_does(
    family: str, dtype: str, prompt: int, response: int, vocab: int, monkeypatch: Any
) -> None:
    if family in MIXTURES:
        monkeypatch.setattr(GenerationMixin, "_optimize_model_for_decode", decoding)
    config = {**CONFIGS[family], "model_type": family, "vocab_size": vocab}
    plan = Plan(
        model="tiny/model",
        config=catalog.encode_config(config),
        gpus=1,
        sharding="none",
        rollout="hf",
        dtype=dtype,
        master_dtype="none",
        prompts_per_step=4,
        responses_per_prompt=2,
        prompt_tokens=prompt,
        response_tokens=response,
        attention="eager",
        kl="none",
    )

    def run() -> int:
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return real_peak(config, plan, sequences=8)

    name = f"{family}-{dtype}-{prompt}-{response}-{vocab}"
    live = EVIDENCE.figures(name, [plan.model_dump(), config], run)
    found = next(phase for phase in estimate(plan).phases if phase.name == "rollout")
    moments = sum(term.bytes for term in found.terms if term.name == "Adam moments")
    own = found.requested_bytes - CUBLAS - moments
    # Small tensors of generate itself (position ids, stopping criteria) are not counted.
    assert own == pytest.approx(live, rel=0.03), (found.instant, own - live)
