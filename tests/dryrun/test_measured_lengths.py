"""Layers measured on the spot answer by length as a dry run of every layer does, or say no.

A drawn few of accuracy/measured/lengths.json's kinds, small; the table has them at their widths.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from accuracy import any_model, lengths
from planner import catalog
from planner.catalog import measured, spot
from planner.dryrun.ask.port import Port
from planner.dryrun.run.spot.lengths import lengths_for
from planner.formulas.length_law import PLAIN, PROOF, WITHIN, Proof, law_of
from planner.plan import Plan
from planner.sweeps.table import sweep

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 8192,
    "pad_token_id": 0,
}
SCAN = {"mamba_n_heads": 8, "mamba_d_head": 32, "mamba_d_state": 32}
SMALL: dict[str, dict[str, Any]] = {
    "falcon_h1": {**SIZES, **SCAN, "model_type": "falcon_h1", "mamba_d_ssm": 256},
    "bamba": {**SIZES, **SCAN, "model_type": "bamba", "attn_layer_indices": [1, 3]},
    "nemotron_h": {
        **SIZES,
        "model_type": "nemotron_h",
        "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 32,
        "ssm_state_size": 32,
        "head_dim": 32,
    },
    "minimax": {
        **SIZES,
        "model_type": "minimax",
        "num_local_experts": 4,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    "lfm2": {**SIZES, "model_type": "lfm2", "layer_types": ["conv", "full_attention"] * 2},
}
TOKENS = (1024, 4000, 4096)
MIXTURE = {
    **SIZES,
    "model_type": "granitemoe",
    "intermediate_size": 2048,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
"""Gradients of its experts are larger than all that passes in a layer."""
STEP: dict[str, Any] = {
    **any_model.PLAN,
    "gradient_dtype": "bf16",
    "attention": "sdpa",
    "prompts_per_step": 2,
}
TURNS: dict[str, Any] = {
    **SIZES,
    "model_type": "recurrent_gemma",
    "num_hidden_layers": 3,
    "lru_width": 128,
    "head_dim": 32,
    "max_position_embeddings": 256,
}
"""A loop over tokens, with few positions: what is measured of it ends soon."""


def planned(port: Port, config: Mapping[str, Any], tokens: int, **changes: Any) -> Plan:
    with spot.measuring(port.measure):
        encoded = catalog.encode_config(catalog.parse_config(json.dumps(config)).config)
        sizes = {"prompt_tokens": tokens // 2, "response_tokens": tokens - tokens // 2}
        return Plan(**{**STEP, **sizes, **changes, "config": encoded})


def test_long_rows_are_those_of_a_dry_run(port: Port) -> None:
    """Beyond the lengths that the law was solved from, in whole chunks and not."""
    drawn = random.SystemRandom().sample(sorted(SMALL), 2)
    for name, tokens in product(drawn, TOKENS):
        for one in port.run(planned(port, SMALL[name], tokens), full_depth=True).comparisons:
            if one.executed and one.dry_bytes and one.closed_bytes:
                # MiniMax' decays, which are no weights, are a constant.
                error = one.closed_bytes / one.dry_bytes - 1
                near = max(0.01, (3 << 20) / one.dry_bytes)
                assert abs(error) <= near, (name, tokens, one.phase, error)


@pytest.mark.parametrize("prompts", [2, 8])
def test_gradients_are_counted_at_the_instants_that_they_are_there(
    port: Port, prompts: int
) -> None:
    """Of one micro-batch they stay; of four each is added to the earlier ones."""
    _is_the_dry_run(port, planned(port, MIXTURE, 256, prompts_per_step=prompts))


def test_a_model_that_casts_its_logits_keeps_none_that_are_narrow(port: Port) -> None:
    _is_the_dry_run(port, planned(port, {**SMALL["nemotron_h"], "vocab_size": 8192}, 512))


def _is_the_dry_run(port: Port, plan: Plan) -> None:
    compared = {one.phase: one for one in port.run(plan, full_depth=True).comparisons}
    for phase in ("policy forward", "policy backward"):
        difference = compared[phase].difference
        assert difference is not None and abs(difference) < 0.001, (phase, difference)


def test_rows_beyond_what_was_proved_are_refused_with_the_lengths_that_hold(port: Port) -> None:
    plan = planned(port, TURNS, 300)
    key = catalog.parse_config(TURNS).spot
    setting, _ = measured.setting_of(key, "sdpa/padded/bf16", "all")
    assert setting is not None
    proof = Proof(*setting[PROOF])
    assert law_of(setting).form == PLAIN and proof.failed == 0 < proof.held
    longest = proof.longest
    assert planned(port, TURNS, longest)
    with pytest.raises(ValueError, match=f"has {longest + 1:,} tokens, .* measured up to") as no:
        planned(port, TURNS, longest + 1)
    assert f"Keep rows to {longest:,}." in str(no.value)
    over = {"response_tokens": [1, longest - 150, longest - 149], "prompt_tokens": [150]}
    table = sweep(plan, over)
    assert table["valid"].tolist() == [True, True, False]
    missed = {**setting, PROOF: [0, 144]}
    with pytest.MonkeyPatch.context() as patch:
        kept = spot._known[key]
        settings = {**kept["settings"], "sdpa/padded/bf16/all": missed}
        patch.setitem(spot._known, key, {**kept, "settings": settings})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at 144, which no law .* within 2%. Choose another"):
            planned(port, TURNS, 64)


def test_lengths_are_whole_chunks_and_two_of_them() -> None:
    assert lengths_for(1 << 17) == (256, 512, 1024)
    assert lengths_for(1 << 17, 64) == (256, 512, 1024)
    assert lengths_for(1 << 17, 256) == (512, 1024, 2048)
    assert lengths_for(1 << 17, 300) == (600, 1200, 2400)
    assert lengths_for(1 << 17, 1, 32) == (32, 64, 128)
    assert lengths_for(2048, 256) == (512, 1024, 2048)
    assert lengths_for(512) == (64, 128, 256)
    with pytest.raises(ValueError, match="8 positions are too few"):
        lengths_for(8)


def test_the_table_has_every_row_and_the_page_is_written_from_it() -> None:
    found = json.loads(lengths.FILE.read_text("utf-8"))
    rows = {row["name"]: row for row in found["rows"]}
    assert {*measured.table()["models"]} <= {*rows} <= {*lengths.names()}
    assert "\n".join(lengths.summary(found)) in any_model.DOCS.read_text("utf-8")
    for row in rows.values():
        for tokens, one in row["lengths"].items():
            if "difference" in one and abs(one["difference"]) > WITHIN:
                raise AssertionError(f"{row['name']} at {tokens}: {one['difference']:+.1%}")
