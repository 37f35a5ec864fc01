"""What TRL's trainers ask of data or of other packages, on tensors without data and for real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from accuracy.trl_cases import ADAPTERS, CASES, EIGHT_BIT, FSDP2, PACKED, QWEN, Case
from accuracy.trl_packages import packages as real_packages
from accuracy.trl_runs import dry_peaks, real_peaks
from accuracy.trl_summary import stored
from framework_runs import WITHOUT_PACKAGES, real_and_dry
from planner.estimate import estimate
from planner.frameworks.trl import FRAMEWORK, own_step
from planner.frameworks.trl.run import packages
from planner.launch.export import export
from planner.launch.huggingface.run import eight_bit
from planner.launch.huggingface.run import packages as below
from planner.plan.frameworks import OWN

torch.set_num_threads(1)

TOLERANCE = 1e-3
NAMED = {case.name: case for case in CASES}
KEPT = (
    "DPO, LoRA, 8-bit AdamW",
    "GRPO, KL, paged AdamW",
    "SFT, Liger",
    "DPO, cached log-probs",
    "GRPO, KL, fp16, FSDP2",
)
TABLE = 4096 * 256
"""Values of the embedding of the cases' Qwen2."""


@pytest.mark.parametrize("name", WITHOUT_PACKAGES)
def test_every_phase_peaks_where_the_allocator_says(name: str) -> None:
    case = NAMED[name]
    assert not own_step.refusal(case.plan)

    def with_packages() -> dict[str, int]:
        with real_packages(case.plan):
            return real_peaks(case)

    real, dry = real_and_dry(case, with_packages, lambda: dry_peaks(case))
    assert stored()["cases"][name]["real_bytes"] == pytest.approx(real, rel=TOLERANCE)
    assert list(dry) == list(real) and dry == pytest.approx(real, rel=TOLERANCE)


@pytest.mark.parametrize("name", KEPT)
def test_what_packages_make_is_what_they_made(name: str) -> None:
    case = NAMED[name]
    assert not own_step.refusal(case.plan)
    real = stored()["cases"][name]["real_bytes"]
    assert dry_peaks(case) == pytest.approx(real, rel=TOLERANCE)


@contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("where", "seam", "name"),
    [
        (packages, "_collated", "SFT, packed"),
        (below, "bitsandbytes", "SFT, 8-bit AdamW"),
        (packages, "cached", KEPT[3]),
    ],
)
def test_nothing_runs_without_a_seam(
    where: Any, seam: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, seam, _nothing)
    changes = {**NAMED[name].changes, "dtype": "bf16", "master_dtype": "fp32"}
    with pytest.raises((RuntimeError, ImportError, ValueError, NotImplementedError, TypeError)):
        dry_peaks(replace(NAMED[name], changes=changes))


def test_a_cpu_has_no_fp16_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    case = NAMED["SFT, fp16"]
    halves = dry_peaks(case)
    monkeypatch.setattr(below, "scaled", _nothing)
    assert dry_peaks(case)["policy forward"] > 1.03 * halves["policy forward"]


def test_small_weights_and_embeddings_have_fp32_moments() -> None:
    manager = eight_bit.GlobalOptimManager()
    table = torch.nn.Embedding(64, 128)
    others = (torch.nn.Parameter(torch.zeros(size)) for size in (30_000, 8))
    weights = [table.weight, *others]
    manager.register_module_override(table, "weight", {"optim_bits": 32})
    kind: Any = eight_bit.optimizer_of(manager, None)
    optimizer = kind(weights, lr=1e-3, optim_bits=8, is_paged=True)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    sizes = [sum(value.nbytes for value in optimizer.state[each].values()) for each in weights]
    assert sizes == [8 * 64 * 128, 2 * (30_000 + 4 * 118), 8 * 8]


def test_embeddings_of_what_transformers_trains_are_counted_in_fp32() -> None:
    case = Case("8-bit", "sft", EIGHT_BIT)

    def moments(**changes: Any) -> float:
        plan = replace(case, changes={**EIGHT_BIT, **changes}).plan
        (terms,) = (one.terms for one in estimate(plan).phases if one.name == "optimizer step")
        return sum(term.bytes for term in terms if "moments" in term.name and not term.host)

    wide = (8 - 2) * TABLE - 2 * 4 * TABLE // 256
    assert moments() - moments(framework=OWN) == pytest.approx(wide, abs=4096)
    assert moments(**FSDP2) == pytest.approx(moments(framework=OWN, **FSDP2))
    assert moments(**ADAPTERS) == pytest.approx(moments(**ADAPTERS, framework=OWN))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_rows_are_kept_apart_without_flash(attention: str) -> None:
    """transformers makes the mask of positions that begin anew, so an export may ask for it."""
    settings = AutoConfig.for_model(**{**QWEN, "num_hidden_layers": 2})
    model: Any = AutoModelForCausalLM.from_config(settings, attn_implementation=attention).eval()
    rows = [torch.randint(5, 900, (length,)).tolist() for length in (20, 33)]
    collate = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    batch = collate([{"input_ids": row} for row in rows])
    del batch["labels"]
    with torch.no_grad():
        packed = model(**batch, use_cache=False).logits[0]
        alone = [model(input_ids=torch.tensor([row]), use_cache=False).logits[0] for row in rows]
    assert torch.allclose(packed, torch.cat(alone), atol=1e-4)


def test_an_export_packs_with_sdpa() -> None:
    plan = Case("packed", "sft", PACKED).whole
    assert plan.attention == "sdpa"
    assert "packing: true" in next(
        file.text for file in export(plan, FRAMEWORK.name).files if file.name == "sft.yaml"
    )
