"""Coefficients that a dry run measures, against sums that people derived by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from planner import catalog
from planner.catalog import measured, spot
from planner.catalog.architecture import Architecture
from planner.dryrun.run.spot import measure
from planner.formulas.activations.layers import (
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.model import model_saved
from planner.formulas.activations.workload import Workload
from planner.formulas.polynomial import value
from planner.plan import Plan

SIZES = ((2, 512), (3, 1024), (8, 4096))
SEED_BYTES = 16
"""The state of random numbers that a kernel with dropout keeps: two int64; not in derived sums."""
AFTER_LAYERS = ("final norm", "input of the language-model head")
OUTPUTS = ("final norm output", "input of the language-model head")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=["Qwen/Qwen3-0.6B", "allenai/OLMoE-1B-7B-0924"])
def both(request: pytest.FixtureRequest) -> tuple[Architecture, dict[str, Any]]:
    model = catalog.model(request.param)
    assert model.architecture is not None and not model.architecture.measured
    found = measure(model.config, ["sdpa/padded/bf16"])
    return model.architecture, found["settings"]


def _workload(rows: int, tokens: int, trains: str) -> Workload:
    return Workload(
        sequences=rows,
        tokens=tokens,
        batch_shape="padded",
        attention="sdpa",
        precision="bf16",
        trains=trains,
    )


def _bytes(terms: Any) -> int:
    return int(sum(term.bytes for term in terms))


@pytest.mark.parametrize(("rows", "tokens"), SIZES)
def test_a_measured_layer_keeps_and_needs_what_the_derived_sum_says(
    both: tuple[Architecture, dict[str, Any]], rows: int, tokens: int
) -> None:
    arch, settings = both
    found = settings["sdpa/padded/bf16/all"]
    (kind,) = found["kinds"]
    workload = _workload(rows, tokens, "all")
    kept = layer_saved(arch, workload, role="p", layers=1)
    assert value(kind["kept"], rows, tokens) == _bytes(kept) + SEED_BYTES
    for added, name in enumerate(("made", "backward")):
        highest = max(value(instant, rows, tokens) for instant in kind[name])
        derived = replace(workload, accumulates=added)
        assert highest == _bytes(layer_backward_transient(arch, derived, role="p")), name
    highest = max(value(instant, rows, tokens) for instant in kind["forward"])
    beside = _beside(arch, rows, tokens) + rows * tokens * tokens  # the mask, as booleans
    assert highest == _bytes(layer_forward_transient(arch, workload, role="p")) + beside


def _beside(arch: Architecture, rows: int, tokens: int) -> int:
    """What the forward holds by name while its layers run: embeddings, and int64 positions.

    Derived sums leave both out.
    """
    return rows * tokens * arch.hidden * 2 + 8 * tokens


@pytest.mark.parametrize(("rows", "tokens"), SIZES)
def test_what_stands_outside_the_layers_is_the_derived_sum(
    both: tuple[Architecture, dict[str, Any]], rows: int, tokens: int
) -> None:
    arch, settings = both
    found = settings["sdpa/padded/bf16/all"]
    derived = model_saved(arch, _workload(rows, tokens, "all"), role="p")
    after = [term for term in derived if term.name.startswith(AFTER_LAYERS)]
    inside = [term for term in after if term.name not in OUTPUTS]
    before = [term for term in derived if term not in after and term.name != "token ids"]
    assert value(found["standing"], rows, tokens) == _bytes(before)
    assert value(found["after"], rows, tokens) == _bytes(inside)


@pytest.mark.parametrize(("rows", "tokens"), SIZES)
def test_a_forward_without_gradients_is_the_derived_one(
    both: tuple[Architecture, dict[str, Any]], rows: int, tokens: int
) -> None:
    arch, settings = both
    found = settings["sdpa/padded/bf16/none"]
    workload = _workload(rows, tokens, "none")
    (kind,) = found["kinds"]
    assert kind["kept"] == (0, 0, 0, 0, 0, 0)
    highest = max(value(instant, rows, tokens) for instant in kind["forward"])
    derived = _bytes(layer_forward_transient(arch, workload, role="p"))
    assert highest - derived in (0, SEED_BYTES)
    hidden = rows * tokens * arch.hidden * 2
    outside = _bytes(model_saved(arch, workload, role="p")) - hidden
    assert value(found["before"], rows, tokens) == outside + _beside(arch, rows, tokens)


def test_the_table_is_what_measuring_gives() -> None:
    """Of the smallest of its models, in one setting; the others are made by the same code."""
    config = spot.canonical(catalog.model("karpathy/nanochat-d20").config)
    found = measure(config, ["sdpa/full/bf16"])
    entry = measured.entry("karpathy/nanochat-d20")
    assert found["layers"] == entry["layers"]
    assert [list(row) for row in found["weights"]] == entry["weights"]
    for name, setting in found["settings"].items():
        kinds = [
            {key: _plain(coefficient) for key, coefficient in kind.items()}
            for kind in setting["kinds"]
        ]
        assert {**entry["settings"][name], "kinds": kinds} == entry["settings"][name]


def _plain(coefficient: Any) -> Any:
    """Tuples as JSON gives them back."""
    if isinstance(coefficient, bool):
        return coefficient
    return [_plain(each) if isinstance(each, tuple) else each for each in coefficient]


def test_a_tied_head_is_the_embedding() -> None:
    def kinds(name: str) -> list[str]:
        return [row[1] for row in measured.entry(name)["weights"] if not row[5]]

    for name, tied in (("Qwen/Qwen3.5-2B", True), ("Qwen/Qwen3.5-9B", False)):
        model = catalog.model(name)
        assert model.config["tie_word_embeddings"] == tied
        assert model.architecture is not None and model.architecture.tied == tied
        assert kinds(name) == ["embedding", "norm", *["lm_head"] * (not tied)]


def test_every_model_without_a_derived_sum_is_in_the_table_and_can_be_planned() -> None:
    refused = []
    for model in catalog.models():
        attention = "sdpa"
        if model.architecture is not None and model.architecture.attention_softcap:
            attention = "eager"
        if model.model_type == "gpt_oss":
            attention = "eager"
        try:
            Plan(
                model=model.id,
                method="sft",
                attention=attention,
                master_dtype="none",
                prompt_tokens=128,
                response_tokens=128,
            )
        except ValueError as error:
            refused.append((model.id, str(error)))
    assert refused == []
