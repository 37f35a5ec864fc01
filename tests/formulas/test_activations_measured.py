"""Terms from coefficients: sums by hand over a small table, sweeps, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner import catalog
from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.formulas.activations.layers import (
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.model import (
    autocast_weight_copies,
    checkpointed_saved,
    embeddings_leaf,
    model_saved,
)
from planner.formulas.activations.workload import Workload
from planner.formulas.lora import attention_modules, lora_weights, usual_targets
from planner.formulas.parameters import (
    active_layers_parameter_count,
    layer_parameter_count,
    parameter_count,
    value_model_parameter_count,
    weights,
)
from planner.phases.layer_kinds import layer_kinds

SETTING: dict[str, Any] = {
    "before": [0, 0, 1, 0, 8, 0],
    "standing": [0, 0, 0, 0, 8, 0],
    "after": [4, 0, 0, 0, 0, 0],
    "held": False,
    "norm": [[6, 0, 0, 0, 0, 0]],
    "kinds": [
        {
            "kept": [100, 0, 0, 0, 0, 16],
            "input_kept": True,
            "forward": [[50, 0, 0, 0, 0, 0]],
            "backward": [[30, 0, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0]],
            "made": [[30, 0, 0, 0, 0, 150], [0, 2, 0, 0, 0, 50]],
        },
        {
            "kept": [200, 0, 0, 0, 0, 0],
            "input_kept": False,
            "forward": [[70, 0, 0, 0, 0, 0]],
            "backward": [[40, 0, 0, 0, 0, 0]],
            "made": [[40, 0, 0, 0, 0, 0]],
        },
    ],
}
ADAPTED: dict[str, Any] = {"trains": "lora", "lora_targets": ("q_proj", "o_proj"), "lora_rank": 5}
RANKED: dict[str, Any] = {
    "before": [0] * 12,
    "standing": [0, 0, 0, 0, 8, 0] + [0] * 6,
    "after": [4, 0, 0, 0, 0, 0] + [0] * 6,
    "held": False,
    "norm": [[6, 0, 0, 0, 0, 0] + [0] * 6],
    "kinds": [
        {
            "kept": [100, 0, 0, 0, 0, 16] + [2, 0, 0, 0, 0, 3],
            "input_kept": True,
            "forward": [[50, 0, 0, 0, 0, 0] + [0] * 6],
            "again": [[60, 0, 0, 0, 0, 0] + [0] * 6],
            "backward": [[30, 0, 0, 0, 0, 0] + [0] * 6, [10, 0, 0, 0, 0, 0] + [9, 0, 0, 0, 0, 0]],
        },
    ]
    * 2,
}
"""A setting with adapters: what has none, then what each rank adds."""
TABLE = {
    "versions": {"torch": "9.9"},
    "models": {
        "a/b": {
            "layers": "011",
            "fallback": [],
            "supposed": [],
            "refused": {"eager/full/bf16": "no"},
            "settings": {
                "sdpa/full/bf16/all": SETTING,
                "sdpa/full/bf16/none": SETTING,
                "sdpa/full/bf16/lora fp32 self_attn.o_proj,self_attn.q_proj/all": RANKED,
                "sdpa/full/autocast-bf16/none": {
                    **SETTING,
                    "kinds": [
                        {**SETTING["kinds"][0], "kept": [0, 0, 0, 0, 0, 10]},
                        {**SETTING["kinds"][1], "kept": [0, 0, 0, 0, 0, 4]},
                    ],
                },
            },
            "weights": [
                ["model.embed.weight", "embedding", 80, 0, 0, ""],
                ["model.layers.{layer}.self_attn.q_proj.weight", "linear", 64, 8, 8, "111"],
                ["model.layers.{layer}.self_attn.o_proj.weight", "linear", 64, 8, 8, "111"],
                ["model.layers.{layer}.mlp.up_proj.weight", "linear", 64, 8, 8, "100"],
                ["model.layers.{layer}.mlp.experts.up", "experts", 128, 0, 0, "011"],
                ["lm_head.weight", "lm_head", 80, 8, 10, ""],
            ],
        }
    },
}
ARCH = Architecture(
    family="glm4_moe",
    hidden=8,
    layers=3,
    intermediate=8,
    heads=2,
    kv_heads=2,
    head_dim=4,
    vocab=10,
    max_positions=128,
    tied=False,
    norm="rmsnorm",
    activation="silu",
    gated=True,
    experts=4,
    experts_per_token=2,
    expert_intermediate=4,
    dense_layers=(0,),
    measured="a/b",
)


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    catalog.models()  # read once in a process, with the real table
    measured.source.cache_clear()
    kinds = (layer_kinds, weights)
    with monkeypatch.context() as patch:
        patch.setattr(measured, "table", lambda: TABLE)
        patch.setattr(measured, "_spot_of", lambda key: ("spot-of-nothing", {}))
        yield
    for cached in (measured.source, *kinds):
        cached.cache_clear()


def _workload(**changes: Any) -> Workload:
    given = {
        "sequences": 2,
        "tokens": 10,
        "batch_shape": "full",
        "attention": "sdpa",
        "precision": "bf16",
        "trains": "all",
    }
    return Workload(**{**given, **changes})


def _bytes(terms: Any) -> Any:
    return sum(term.bytes for term in terms)


def test_layers_keep_what_their_kind_keeps() -> None:
    assert _bytes(layer_saved(ARCH, _workload(), role="p", layers=3, sparse=False)) == 3 * 2016
    assert _bytes(layer_saved(ARCH, _workload(), role="p", layers=2, sparse=True)) == 2 * 4000
    assert _bytes(layer_saved(ARCH, _workload(), role="p", layers=1)) == 4000


def test_a_recomputed_layers_input_is_left_to_its_checkpoint() -> None:
    dense = layer_saved(ARCH, _workload(), role="p", layers=1, sparse=False, recomputed=True)
    assert _bytes(dense) == 2016 - 2 * 10 * 8 * 2
    sparse = layer_saved(ARCH, _workload(), role="p", layers=1, sparse=True, recomputed=True)
    assert _bytes(sparse) == 4000


def test_the_highest_instant_depends_on_the_size() -> None:
    short = layer_backward_transient(ARCH, _workload(), role="p", sparse=False)
    assert _bytes(short) == 30 * 2 * 10
    long = layer_backward_transient(ARCH, _workload(tokens=20), role="p", sparse=False)
    assert _bytes(long) == 2 * 2 * 400


def test_a_sweep_takes_the_highest_instant_at_each_point() -> None:
    tokens = np.array([10, 15, 20])
    (term,) = layer_backward_transient(ARCH, _workload(tokens=tokens), role="p", sparse=False)
    assert term.bytes.tolist() == [600, 900, 1600]


def test_gradients_of_weights_that_stay_are_among_what_each_instant_has() -> None:
    """By the instant: those made later are not there; a sweep may have plans of both kinds."""
    for tokens, stay in ((10, 600 + 150), (15, 900 + 150), (20, 1600 + 50)):
        kept = _workload(tokens=tokens, accumulates=0)
        assert _bytes(layer_backward_transient(ARCH, kept, role="p", sparse=False)) == stay
    both = _workload(tokens=20, accumulates=np.array([0, 1]))
    found = layer_backward_transient(ARCH, both, role="p", sparse=False)
    assert _bytes(found).tolist() == [1650, 1600]


def test_without_a_word_a_forward_without_gradients_takes_the_kind_that_needs_more() -> None:
    found = layer_forward_transient(ARCH, _workload(trains="none"), role="p")
    assert _bytes(found) == 70 * 20
    assert _bytes(layer_forward_transient(ARCH, _workload(), role="p", sparse=False)) == 50 * 20


def test_what_stands_outside_the_layers() -> None:
    trained = {term.name: term.bytes for term in model_saved(ARCH, _workload(), role="p")}
    assert trained == {
        "token ids": 8 * 20,
        "beside the layers": 80,
        "final norm": 80,
        "final norm output": 20 * 8 * 2,
    }
    assert _bytes(model_saved(ARCH, _workload(trains="none"), role="p")) == 100 + 80 + 320
    checkpointed = checkpointed_saved(ARCH, _workload(), role="p", layers=3)
    assert _bytes(checkpointed) == 3 * 320 + 100


def test_embeddings_held_by_name_are_counted_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = TABLE["models"]["a/b"]  # type: ignore[index]
    held = {**SETTING, "held": True}
    monkeypatch.setitem(entry["settings"], "sdpa/full/bf16/all", held)
    passing = layer_forward_transient(ARCH, _workload(), role="p", sparse=False)
    assert _bytes(passing) == 50 * 20 - 20 * 8 * 2


def test_autocast_copies_what_was_seen_copied_and_the_head() -> None:
    of_layers = autocast_weight_copies(ARCH, role="p", layers=True, head=False)
    assert _bytes(of_layers) == 10 + 2 * 4
    both = autocast_weight_copies(ARCH, role="p", layers=True, head=True)
    assert _bytes(both) == 18 + 80 * 2


def test_weights_are_those_of_the_list() -> None:
    attention = 3 * 2 * 64
    assert parameter_count(ARCH) == 80 + attention + 64 + 2 * 128 + 80
    assert layer_parameter_count(ARCH) == 2 * 64 + 128
    assert active_layers_parameter_count(ARCH) == attention + 64 + 128
    assert value_model_parameter_count(ARCH) == 80 + attention + 64 + 2 * 128 + 8 + 1
    dense, sparse = layer_kinds(ARCH)
    assert (dense.places, sparse.places) == ((0,), (1, 2))
    assert (dense.sparse, sparse.sparse) == (False, True)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({**ADAPTED, "lora_targets": ("up_proj",)}, "lora_targets: 'up_proj' reaches past"),
        ({**ADAPTED, "lora_targets": ("up",)}, "lora_targets: adapters of whole tensors"),
        ({**ADAPTED, "lora_targets": ("q_proj",)}, "these adapters, which nobody"),
        ({"trains": "inputs"}, "method"),
        ({"batch_shape": "packed"}, "packed rows in bf16, which nobody measured"),
        ({"attention": "flash"}, "attention is 'flash' .* which nobody measured"),
        ({"attention": "eager"}, "does not run for glm4_moe .no.; set attention to 'sdpa'"),
        ({"compiled": True}, "compile"),
        ({"precision": "fp32"}, "rows in fp32, which nobody measured"),
        ({"precision": "autocast-bf16"}, "master_dtype"),
    ],
)
def test_what_was_not_measured_is_refused_by_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        layer_saved(ARCH, _workload(**changes), role="p", layers=1)


def test_an_attentions_gate_named_as_experts_are_is_not_adapted_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AFMoE: peft 0.21.2 refuses ``gate_proj`` of a mixture without ``up_proj``."""
    entry = TABLE["models"]["a/b"]  # type: ignore[index]
    gate = ["model.layers.{layer}.self_attn.gate_proj.weight", "linear", 64, 8, 8, "111"]
    monkeypatch.setitem(entry, "weights", [*entry["weights"], gate])
    weights.cache_clear()
    assert attention_modules(ARCH) == ("q_proj", "o_proj")


MIXER = "model.layers.{layer}.mixer."


@pytest.fixture
def mixers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a layer has is called its mixer: attention, Mamba's, or experts."""
    names = ("in_proj", "out_proj", "q_proj", "up_proj", "shared_experts.up_proj")
    rows = [[f"{MIXER}{name}.weight", "linear", 64, 8, 8, "111"] for name in names]
    experts = [f"{MIXER}experts.up_proj", "experts", 128, 0, 0, "011"]
    monkeypatch.setitem(TABLE["models"]["a/b"], "weights", [*rows, experts])  # type: ignore[index]
    weights.cache_clear()


@pytest.mark.usefixtures("mixers")
@pytest.mark.parametrize(("experts", "usual"), [
    (4, ("in_proj", "q_proj")),
    (0, ("in_proj", "q_proj", "up_proj")),
])  # fmt: skip
def test_what_peft_refuses_of_mambas_mixers_is_not_adapted_by_default(
    experts: int, usual: tuple[str, ...]
) -> None:
    """``out_proj`` and ``conv1d``; beside experts, what is called as they are, too."""
    arch = replace(ARCH, family="nemotron_h", experts=experts)
    assert usual_targets(arch) == usual
    assert {weight.module for weight in lora_weights(arch, usual)} == {*usual}
    for refused in (("all-linear",), ("q_proj", "out_proj")):
        with pytest.raises(ValueError, match=r"^lora_targets: .* by peft .*; set lora_targets to"):
            lora_weights(arch, refused)
    assert usual_targets(replace(ARCH, family="bamba", experts=0)) == ()


def test_adapters_that_do_not_run_where_the_model_does_are_blamed_on_their_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "sdpa/full/bf16/lora fp32 self_attn.q_proj"
    monkeypatch.setitem(TABLE["models"]["a/b"], "refused", {name: "peft says no"})  # type: ignore[index]
    with pytest.raises(ValueError, match="^lora_targets: .*peft says no.*; name other modules"):
        layer_saved(ARCH, _workload(**{**ADAPTED, "lora_targets": ("q_proj",)}), role="p", layers=1)


def test_adapters_add_what_each_of_their_ranks_adds() -> None:
    kept = layer_saved(ARCH, _workload(**ADAPTED), role="p", layers=3, sparse=False)
    assert _bytes(kept) == 3 * ((100 + 5 * 2) * 20 + 16 + 5 * 3)
    lengths = np.array([10, 20])
    swept = _workload(**ADAPTED, tokens=lengths)
    kept = layer_saved(ARCH, swept, role="p", layers=1, sparse=False)
    assert _bytes(kept).tolist() == [110 * 20 + 31, 110 * 40 + 31]
    backward = layer_backward_transient(ARCH, _workload(**ADAPTED), role="p", sparse=False)
    assert _bytes(backward) == (10 + 9 * 5) * 20  # above 30, which wins at lower ranks


def test_a_layer_that_runs_again_may_be_higher_than_its_backward() -> None:
    """While it does, the gradient of its output waits."""
    again = layer_backward_transient(
        ARCH, _workload(**ADAPTED), role="p", sparse=False, recomputed=True
    )
    assert _bytes(again) == 60 * 20 + 20 * 8 * 2


def test_of_adapted_layers_neither_ids_nor_the_heads_input_are_kept() -> None:
    trained = {term.name: term.bytes for term in model_saved(ARCH, _workload(**ADAPTED), role="p")}
    assert trained == {"beside the layers": 80, "final norm": 80}
    (leaf,) = embeddings_leaf(ARCH, _workload(**ADAPTED), role="p", kept=False)
    assert leaf.bytes == 20 * 8 * 2


def test_terms_say_where_they_come_from() -> None:
    term = layer_saved(ARCH, _workload(), role="p", layers=1)[0]
    assert term.source == "dry-run coefficients (torch 9.9)"


def test_caches_are_those_of_the_layers_that_attend() -> None:
    half = replace(ARCH, stateful_layers=2)
    assert (ARCH.cache_layers, half.cache_layers) == (3, 1)


def test_other_models_are_not_touched() -> None:
    model = catalog.model("Qwen/Qwen3-0.6B").architecture
    assert model is not None and model.measured == "" and model.cache_layers == model.layers
