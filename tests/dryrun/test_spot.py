"""Models that nobody derived, measured on the spot, answer as a dry run of all layers does."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evidence import STEPS, Evidence
from planner import catalog
from planner.background import GivenUp
from planner.catalog import measured, spot
from planner.catalog.architecture import Architecture
from planner.dryrun.ask.port import Port
from planner.estimate import estimate
from planner.formulas.activations.layers import layer_backward_transient, layer_saved
from planner.formulas.activations.workload import Workload
from planner.formulas.parameters import parameter_count
from planner.plan import Plan
from planner.plan.unmeasured import unmeasured

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 160,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
}
FEW: dict[str, Any] = {"max_position_embeddings": 256}
"""Where every token is a turn: no longer rows are looked at than a model has positions."""
MAMBA = {
    "model_type": "mamba",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "vocab_size": 160,
    **FEW,
}
JAMBA = {
    **SIZES,
    **FEW,
    "model_type": "jamba",
    "num_hidden_layers": 6,
    "attn_layer_period": 3,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 4,
    "use_mamba_kernels": False,
}
LFM2 = {
    **SIZES,
    "model_type": "lfm2",
    "layer_types": ["conv", "full_attention", "conv", "full_attention"],
}
MIXTURE = {**SIZES, "model_type": "granitemoe", "num_local_experts": 4, "num_experts_per_tok": 2}
CAPPED = {
    **SIZES,
    "model_type": "vaultgemma",
    "head_dim": 16,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}
MULTIMODAL = {
    "model_type": "llava",
    "text_config": {**SIZES, "model_type": "stablelm"},
    "vision_config": {"model_type": "clip_vision_model"},
}
SCAN = {
    "model_type": "mamba2",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_heads": 8,
    "head_dim": 16,
    "n_groups": 1,
    "state_size": 16,
    "chunk_size": 64,
    "vocab_size": 160,
}
HYBRID = {
    **SIZES,
    "model_type": "falcon_h1",
    "mamba_d_ssm": 128,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_chunk_size": 64,
}
LOOPED = {
    "model_type": "dbrx",
    "d_model": 64,
    "n_heads": 4,
    "n_layers": 3,
    "max_seq_len": 2048,
    "vocab_size": 160,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
    "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
}
SPLIT = {
    **SIZES,
    "model_type": "jetmoe",
    "kv_channels": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
TABLES = {
    **SIZES,
    "model_type": "gemma3n_text",
    "head_dim": 16,
    "vocab_size_per_layer_input": 65536,
    "hidden_size_per_layer_input": 16,
    "num_kv_shared_layers": 0,
    "laurel_rank": 8,
    "intermediate_size": [96] * 4,
    "activation_sparsity_pattern": [0.0] * 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "altup_num_inputs": 2,
}
BERT = {**SIZES, "model_type": "bert"}
LIVE = {
    "mamba": MAMBA,
    "jamba": JAMBA,
    "lfm2": LFM2,
    "mixture": MIXTURE,
    "soft-capped": CAPPED,
    "multimodal": MULTIMODAL,
    "bert": BERT,
    "scan of chunks": SCAN,
    "experts in a loop": LOOPED,
    "experts by split": SPLIT,
    "table for each layer": TABLES,
}
STEP: dict[str, Any] = {
    "method": "sft",
    "gpu": "h100-80gb",
    "gpus": 1,
    "sharding": "none",
    "master_dtype": "none",
    "gradient_dtype": "bf16",
    "micro_batch_size": 2,
    "prompt_tokens": 24,
    "response_tokens": 24,
    "batch_shape": "padded",
    "attention": "eager",
    "gradient_checkpointing": "none",
    "rollout": "none",
}


def asked(port: Port, config: Mapping[str, Any], **changes: Any) -> Plan:
    """The plan of a pasted config, measured where that is missing."""
    with spot.measuring(port.measure):
        return planned(config, changes)


def planned(config: Mapping[str, Any], changes: Mapping[str, Any]) -> Plan:
    encoded = catalog.encode_config(catalog.parse_config(json.dumps(config)).config)
    return Plan(**{**STEP, **changes, "config": encoded})


# transformers does not checkpoint JetMoE.
CASES = [(name, how) for name in LIVE for how in ("none", "full") if LIVE[name] is not SPLIT]
CASES.append(("experts by split", "none"))

ADAPTERS: dict[str, Any] = {"finetuning": "lora", "lora_rank": 12, "lora_targets": "all-linear"}
WAYS: dict[str, dict[str, Any]] = {
    "adapters": ADAPTERS,
    "adapters in fp32": {**ADAPTERS, "master_dtype": "fp32", "gradient_dtype": "fp32"},
    "adapters under autocast": {
        **ADAPTERS,
        "master_dtype": "fp32",
        "gradient_dtype": "fp32",
        "autocast": True,
    },
    "adapters after dropout": {**ADAPTERS, "lora_dropout": 0.1},
    "adapters of packed rows": {**ADAPTERS, "batch_shape": "packed", "attention": "flash"},
    "packed": {"batch_shape": "packed", "attention": "sdpa"},
    "packed for flash": {"batch_shape": "packed", "attention": "flash"},
    "padded for flash": {"attention": "flash"},
    "full for flash": {"batch_shape": "full", "attention": "flash"},
}
NAMES = [*(f"{name}, {how}" for name, how in CASES), *WAYS]
EVIDENCE = Evidence(
    "spot",
    of=(*(f"planner.dryrun.run.{name}" for name in ("worker", "execute", "spot")), *STEPS),
    kinds={name: "a way" if name in WAYS else "a model" for name in NAMES},
)


def beside(
    port: Port, case: str, config: Mapping[str, Any], **changes: Any
) -> tuple[Plan, dict[str, tuple[int, int]]]:
    """A plan of a pasted config; by phase its estimate and a dry run of every layer.

    What is measured of the model, too, is evidence. Its key is the case's own, so that no other
    case's settings are in it.
    """
    own = {"initializer_range": 0.02 + NAMES.index(case) / 10_000}
    text = config.get("text_config")
    config = {**config, **({"text_config": {**text, **own}} if text else own)}
    key = catalog.parse_config(config).spot

    def compute() -> dict[str, Any]:
        found = port.run(asked(port, config, **changes), full_depth=True)
        assert not found.errors
        dry = {one.phase: one.dry_bytes for one in found.comparisons if one.executed}
        return {"measured": spot.found(key), "dry": dry}

    found = EVIDENCE.figures(case, [config, STEP, changes], compute)
    spot._known[key] = found["measured"]
    plan = planned(config, changes)
    phases = [phase for phase in estimate(plan).phases if phase.executed]
    closed = {phase.name: int(phase.requested_bytes) for phase in phases}
    assert closed.keys() == found["dry"].keys()
    return plan, {name: (closed[name], dry) for name, dry in found["dry"].items() if dry}


def test_a_measurement_leaves_nothing_behind() -> None:
    """A worker lives long: what it cannot free slows every collection of what comes after."""
    from planner.dryrun.run.tracker import Tracker
    from planner.dryrun.run.worker import measured

    def trackers() -> set[int]:
        gc.collect()
        return {id(one) for one in gc.get_objects() if type(one) is Tracker}

    before = trackers()
    assert "error" not in measured({**SIZES, "model_type": "gpt_bigcode"}, ["sdpa/padded/bf16"])
    assert trackers() <= before


@pytest.mark.parametrize(("name", "checkpointing"), CASES)
def test_the_estimate_is_that_of_a_dry_run_of_every_layer(
    port: Port, name: str, checkpointing: str
) -> None:
    case = f"{name}, {checkpointing}"
    plan, found = beside(port, case, LIVE[name], gradient_checkpointing=checkpointing)
    assert len(found) == 3
    for phase, (closed, dry) in found.items():
        # Small models: some tens of KiB that large ones do not notice.
        assert closed == pytest.approx(dry, rel=0.01, abs=48 * 1024), phase
    again = estimate(plan)
    said = " ".join(again.warnings)
    assert "are measured in dry runs on this machine" in said
    left_out = " ".join(again.assumptions)
    assert ("is left out" in left_out) == again.verdict.incomplete == (name == "multimodal")
    assert ("spread evenly" in said) == name.startswith("experts")


@pytest.mark.parametrize("way", WAYS)
def test_adapters_packed_rows_and_flash_are_measured_too(port: Port, way: str) -> None:
    config = {**LFM2, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6}
    config["layer_types"] = ["conv", "full_attention"] * 3
    sizes = {"prompt_tokens": 200, "response_tokens": 312, "prompts_per_step": 4}
    changes = {**sizes, "gradient_checkpointing": "full", **WAYS[way]}
    _, found = beside(port, way, config, **changes)
    assert found
    for phase, (closed, dry) in found.items():
        # A forward that runs again stops at the last thing that it has to save.
        assert closed == pytest.approx(dry, rel=0.01), phase


def test_a_packed_row_has_the_mask_that_keeps_its_rows_apart(port: Port) -> None:
    """A byte for each pair of its tokens; full rows for torch's attention have none."""
    key = spot.key_of(LFM2)
    port.measure(key, LFM2, ("sdpa/packed/bf16", "sdpa/full/bf16"))
    kept = spot.found(key)
    assert kept is not None
    packed, full = (kept["settings"][f"sdpa/{each}/bf16/none"] for each in ("packed", "full"))
    square = 2
    assert packed["before"][square] >= 1 and full["before"][square] == 0


def test_the_first_of_adapted_layers_is_counted_as_the_others(port: Port) -> None:
    """Without checkpoints no gradient goes through it, and it keeps less: known, and no less."""
    plan = asked(port, CAPPED, **ADAPTERS, prompts_per_step=4)
    for one in port.run(plan, full_depth=True).comparisons:
        if one.executed and one.dry_bytes and one.closed_bytes:
            assert one.dry_bytes - 1024 <= one.closed_bytes <= 1.25 * one.dry_bytes, one.phase


def test_adapters_grow_with_their_rank(port: Port) -> None:
    """Two ranks are measured; any other is a sum of what has none and what each rank adds."""
    for rank in (1, 16, 100):
        plan = asked(port, CAPPED, **{**ADAPTERS, "lora_rank": rank}, gradient_checkpointing="full")
        for one in port.run(plan, full_depth=True).comparisons:
            if one.executed and one.dry_bytes:
                assert one.closed_bytes == pytest.approx(one.dry_bytes, rel=0.01), (rank, one.phase)


def test_of_a_mixture_its_attention_is_adapted(port: Port) -> None:
    with pytest.raises(ValueError, match="reaches past the attention of granitemoe"):
        asked(port, MIXTURE, **ADAPTERS)
    plan = asked(port, MIXTURE, **{**ADAPTERS, "lora_targets": "q_proj,o_proj"})
    assert estimate(plan).phases


def test_of_mambas_mixers_what_peft_takes_is_adapted(port: Port) -> None:
    lora = {"finetuning": "lora", "lora_rank": 12, "gradient_checkpointing": "full"}
    plan = asked(port, HYBRID, **lora)
    modules = {f"{name}_proj" for name in ("in", "q", "k", "v", "o", "gate", "up", "down")}
    assert {*plan.lora_targets.split(",")} == modules
    for one in port.run(plan, full_depth=True).comparisons:
        if one.executed and one.dry_bytes:
            assert one.closed_bytes == pytest.approx(one.dry_bytes, rel=0.01), one.phase
    with pytest.raises(ValueError, match="Adapters of out_proj and conv1d are refused by peft"):
        asked(port, HYBRID, **lora, lora_targets="all-linear")


def test_a_sum_derived_by_hand_is_met(port: Port) -> None:
    """Parameters exactly; what layers keep and need but for what derived sums leave out."""
    rows = {
        "llama": {},
        "qwen3": {},
        "gemma2": {"head_dim": 16, "query_pre_attn_scalar": 16},
        "olmo2": {},
        "phi3": {},
    }
    workload = Workload(
        sequences=4,
        tokens=2048,
        batch_shape="padded",
        attention="eager",
        precision="bf16",
        trains="all",
        accumulates=0,
    )
    for name, own in rows.items():
        config = {**SIZES, **own, "model_type": name}
        hand = catalog.parse_config(config).architecture
        assert hand is not None and not hand.measured
        key = spot.key_of(config)
        port.measure(key, config, ("eager/padded/bf16",))
        here, _ = measured.spot_architecture(key, name, config)
        assert here is not None
        assert parameter_count(here) == parameter_count(hand)
        assert (here.kv_heads, here.head_dim) == (hand.kv_heads, hand.head_dim)
        assert _layer(here, workload) == pytest.approx(_layer(hand, workload), rel=0.002), name


def _layer(arch: Architecture, workload: Workload) -> tuple[int, int]:
    kept = layer_saved(arch, workload, role="policy", layers=arch.layers)
    within = layer_backward_transient(arch, workload, role="policy")
    return sum(int(t.bytes) for t in kept), sum(int(t.bytes) for t in within)


def test_nothing_is_measured_unless_somebody_does(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HEADROOM_CACHE", str(tmp_path))
    monkeypatch.setattr(spot, "_known", {})
    unseen = {**LFM2, "vocab_size": 170}
    encoded = catalog.encode_config(catalog.parse_config(unseen).config)
    with pytest.raises(ValueError, match="a dry run has to measure its layers on this machine"):
        Plan(**{**STEP, "config": encoded})


def test_a_measurement_is_kept_on_disk_and_joined(port: Port, monkeypatch: Any) -> None:
    values = asked(port, LFM2).model_dump()
    key = catalog.parse_config(LFM2).spot
    lacking = unmeasured({**values, "attention": "sdpa"})
    assert lacking is not None and (lacking.key, lacking.model_type) == (key, "lfm2")
    asked(port, LFM2, attention="sdpa")
    monkeypatch.setattr(spot, "_known", {})
    assert unmeasured({**values, "attention": "sdpa"}) is unmeasured(values) is None
    assert catalog.parse_config({**LFM2, "vocab_size": 161}).spot != key


def test_another_process_finds_what_was_added(port: Port, monkeypatch: Any) -> None:
    """A worker that has read a measurement reads it again when it lacks a setting."""
    values = asked(port, LFM2, dtype="fp32", gradient_dtype="fp32").model_dump()
    key = catalog.parse_config(LFM2).spot
    kept = measured.entry(key)
    older = {name: one for name, one in kept["settings"].items() if "/fp32" not in name}
    monkeypatch.setattr(spot, "_known", {key: {**kept, "settings": older}})
    assert unmeasured(values) is None


def test_the_cache_of_states_is_counted(port: Port) -> None:
    asked(port, JAMBA, method="grpo", rollout="hf")
    arch = catalog.parse_config(JAMBA).architecture
    assert arch is not None
    # Two attention layers of six; a Mamba layer keeps [2 * 64, 4] in fp32 or in bf16.
    assert (arch.cache_layers, arch.kv_heads, arch.head_dim) == (2, 2, 16)
    assert arch.state_values + arch.convolution_values == 128 * 4 + 128 * 4


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "nobody_s"}, "has no model type 'nobody_s'"),
        ({"model_type": "t5", **SIZES}, "no causal language model of t5"),
        ({**SIZES, "model_type": "stablelm", "num_attention_heads": 3}, "cannot build stablelm"),
        ({"model_type": "hrm_text"}, "run more than once"),
    ],
)
def test_what_cannot_be_measured_says_why(port: Port, config: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        asked(port, config)


def test_what_coefficients_do_not_cover_is_refused_by_name(port: Port) -> None:
    for changes, words in (
        ({"compile": True, "attention": "sdpa"}, "ompile is set"),
        ({"finetuning": "qlora"}, "4-bit weights of lfm2 are not derived"),
        ({"finetuning": "lora", "lora_targets": "query"}, "'query' picks no layer of lfm2"),
    ):
        with pytest.raises(ValueError, match=words):
            asked(port, LFM2, **changes)


def test_a_measurement_can_be_given_up(port: Port) -> None:
    asked(port, LFM2)
    gone = threading.Event()
    gone.set()
    with pytest.raises(GivenUp):
        port.measure("spot-x", {**LFM2, "vocab_size": 300}, ("sdpa/full/bf16",), gone.is_set)
    assert spot.found("spot-x") is None
