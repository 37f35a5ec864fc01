"""Lengths of measured layers: the estimate beside a dry run at 256, 1,024 and 4,096 tokens.

``python -m accuracy.lengths [--out FILE] [--seconds N] [NAME ...]`` takes every model of
``planner/catalog/coefficients.json`` at its own size, and of the types that are measured on the
spot the scans, windows, latent caches and routed layers, cut to two layers of each kind. A row
that takes longer than its limit is listed as such. docs/models.md has the summary. Torch runs in
the worker only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from accuracy.any_model import PLAN, config_of
from planner import catalog
from planner.background import GivenUp, Refused
from planner.catalog import measured, spot
from planner.dryrun.ask.port import Port
from planner.estimate import estimate
from planner.formulas.length_law import PROOF, WITHIN, Proof, law_of
from planner.plan import Plan

FILE = Path(__file__).parent / "measured" / "lengths.json"
LENGTHS = (256, 1024, 4096)
SECONDS = 300.0
"""No row takes longer."""
VOCABULARY = 8192
"""Small, so that logits hide nothing of the layers."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "scan": (
        *("bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2"),
        *("lfm2_moe", "mamba", "mamba2", "minimax", "nemotron_h", "olmo_hybrid", "qwen3_5_text"),
        *("qwen3_next", "qwen4_exp_text", "recurrent_gemma", "rwkv", "zamba", "zamba2"),
    ),
    "window": (
        *("afmoe", "cohere2", "doge", "exaone4", "flint", "gemma3n_text", "gemma4_text"),
        *("gpt_neo", "lfm3", "llama4_text", "mimo_v2_flash", "ministral", "modernbert-decoder"),
        "vaultgemma",
    ),
    "latent cache": (
        *("axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "dots3_note_text"),
        *("glm4_moe_lite", "glm_moe_dsa", "longcat_flash", "minicpm3", "youtu", "zaya"),
    ),
    "routed": (
        *("dbrx", "ernie4_5_moe", "flex_olmo", "glm4_moe", "gpt_oss", "granitemoe"),
        *("hunyuan_v1_moe", "jetmoe", "minimax_m2", "phimoe", "qwen2_moe"),
    ),
}
"""Types of docs/models.md that are measured on the spot, by what their layers are."""

DEPTH = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
LAYERS = 4
OWN: Mapping[str, Mapping[str, Any]] = {
    "jamba": {"num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 2},
    "recurrent_gemma": {"num_hidden_layers": 6},
    "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"] * 2},
    "lfm2": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2},
    "granitemoehybrid": {
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    "deepseek_v2": {"num_hidden_layers": 4, "first_k_dense_replace": 2},
    "deepseek_v3": {"num_hidden_layers": 4, "first_k_dense_replace": 2},
    "gpt_neo": {
        "num_layers": 4,
        "attention_types": [[["global", "local"], 2]],
        "attention_layers": ["global", "local"] * 2,
    },
}
"""What cuts a type whose lists do not say where its kinds of layers are."""


def cut(name: str) -> dict[str, Any]:
    """A type's default config with two layers of each kind, and a small vocabulary."""
    config = config_of(name) | {"vocab_size": VOCABULARY, "pad_token_id": 0}
    if name in OWN:
        return {**config, **OWN[name]}
    depth = next(key for key in DEPTH if isinstance(config.get(key), int))
    lists = {k: v for k, v in config.items() if isinstance(v, list) and len(v) == config[depth]}
    kinds = [str(each) for each in zip(*lists.values(), strict=True)] if lists else []
    twice = [at for at, each in enumerate(kinds) if kinds[:at].count(each) < 2]
    layers = 1 + max(twice, default=LAYERS - 1)
    if len(set(kinds)) > LAYERS:  # a list of numbers, not of kinds
        layers = LAYERS
    own = {at: one for at, one in config.get("per_layer_config", {}).items() if int(at) < layers}
    per_layer = {"per_layer_config": own} if own else {}
    sliced = {key: value[:layers] for key, value in lists.items()}
    if hybrids := config.get("hybrid_layer_ids"):
        # As many as are left: Zamba 2 has adapters for each of them.
        sliced["hybrid_layer_ids"] = [at for at in hybrids if at < layers]
    return config | {depth: layers} | sliced | per_layer


def row_of(name: str, port: Port, seconds: float = SECONDS) -> dict[str, Any]:
    """The estimate and the dry run of a model or a type at every length."""
    end = time.perf_counter() + seconds
    committed = name in measured.table()["models"]

    def late() -> bool:
        return time.perf_counter() > end

    row: dict[str, Any] = {"name": name, "by": "committed" if committed else "spot", "lengths": {}}
    with spot.measuring(partial(_measure, port, late)):
        for tokens in LENGTHS:
            try:
                row["lengths"][str(tokens)] = _compared(name, committed, tokens, port, late)
            except GivenUp:
                row["unfinished"] = f"{tokens:,} tokens took it beyond {seconds:.0f} s"
                break
            except Exception as error:  # what a type's own code raises is its row
                said = str(error).partition("[type=")[0].removeprefix("1 validation error for Plan")
                row["lengths"][str(tokens)] = {"refused": " ".join(said.split())[:300]}
    if not committed:
        row |= _laws(name)
    return row


def _measure(
    port: Port,
    late: Callable[[], bool],
    key: str,
    config: Mapping[str, Any],
    names: tuple[str, ...],
) -> None:
    try:
        port.measure(key, config, names, cancelled=late)
    except Refused as error:
        raise ValueError(f"config: {error}") from None


def _compared(
    name: str, committed: bool, tokens: int, port: Port, late: Callable[[], bool]
) -> dict[str, Any]:
    sizes = {"prompt_tokens": tokens // 2, "response_tokens": tokens // 2}
    which: dict[str, Any] = {"model": name}
    if not committed:
        which = {"config": catalog.encode_config(catalog.parse_config(cut(name)).config)}
    for attention in ("sdpa", "eager"):
        try:
            plan = Plan(**{**PLAN, **sizes, **which, "attention": attention})
            break
        except ValueError as error:
            if attention == "eager" or "transformers does not run" not in str(error):
                raise
    estimate(plan)
    dry = port.run(plan, full_depth=not committed, cancelled=late)
    pairs = {
        one.phase: (int(one.closed_bytes), int(one.dry_bytes))
        for one in dry.comparisons
        if one.executed and one.dry_bytes and one.closed_bytes
    }
    differences = {phase: closed / ran - 1 for phase, (closed, ran) in pairs.items()}
    worst = max(differences, key=lambda phase: abs(differences[phase]))
    closed, ran = pairs[worst]
    return {
        "attention": attention,
        "phase": worst,
        "bytes": closed,
        "dry_run_bytes": ran,
        "difference": round(closed / ran - 1, 6),
    }


def _laws(name: str) -> dict[str, Any]:
    """By which law the layers of a type were measured, and as far as which length."""
    try:
        key = catalog.parse_config(cut(name)).spot
    except ValueError:
        return {}
    kept = (spot.found(key) if key else None) or {}
    return {
        "laws": {
            setting: {
                "form": law_of(found).form,
                "proved": Proof(*found[PROOF]).held,
                "failed": Proof(*found[PROOF]).failed,
                "longest": Proof(*found[PROOF]).longest,
            }
            for setting, found in kept.get("settings", {}).items()
        }
    }


def names() -> tuple[str, ...]:
    """Every row of the table."""
    return (*measured.table()["models"], *(name for each in KINDS.values() for name in each))


def summary(found: Mapping[str, Any]) -> list[str]:
    """The section of docs/models.md."""
    rows = found["rows"]
    compared = [
        one["difference"]
        for row in rows
        for one in row["lengths"].values()
        if "difference" in one
    ]
    within = sum(abs(each) <= WITHIN for each in compared)
    lowest, highest = min(compared), max(compared)
    lines = [
        "## Lengths",
        "",
        "What measured layers need at 256, 1,024 and 4,096 tokens: all models of the committed "
        "coefficients at their own size, and of the types that are measured on the spot those with "
        "scans, windows, latent caches or routed layers, two layers of each kind. Each figure is "
        "the phase whose estimate is furthest from a dry run of the same, signed (SFT in bf16, two "
        f"padded rows): {len(compared)} compared, {within} of them within {WITHIN:.0%}, the lowest "
        f"{lowest:+.2%}, the highest {highest:+.2%}. *Answers to* is the longest row that is "
        "answered, where the law held at a held-out length of half as many tokens. Written by "
        "`python -m accuracy.lengths`.",
        "",
        "| model or type | measured | law | answers to | 256 | 1,024 | 4,096 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        laws = list(row.get("laws", {}).values())
        forms = ", ".join(sorted({each["form"] for each in laws}))
        longest = min((each["longest"] for each in laws), default=None)
        cells = [_cell(row["lengths"].get(str(tokens))) for tokens in LENGTHS]
        far = "" if longest is None else f"{longest:,}"
        lines.append(f"| {row['name']} | {row['by']} | {forms} | {far} | {' | '.join(cells)} |")
    said = [
        f"- {row['name']}: {words.replace('|', '/')}"
        for row in rows
        for words in dict.fromkeys(
            [
                *(one["refused"] for one in row["lengths"].values() if "refused" in one),
                *([row["unfinished"]] if "unfinished" in row else []),
            ]
        )
    ]
    return [*lines, "", *(["Refused, or not finished in time:", "", *said] if said else [])]


def _cell(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return "not finished"
    return "refused" if "refused" in one else f"{one['difference']:+.3%}"


def main() -> None:
    """Write the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="a row's limit")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    before = json.loads(asked.out.read_text("utf-8"))["rows"] if asked.out.exists() else []
    rows = {row["name"]: row for row in before}
    port = Port()
    for name in asked.names or names():
        rows[name] = row_of(name, port, asked.seconds)
        print(json.dumps(rows[name]), flush=True)
        ordered = [rows[each] for each in names() if each in rows]
        text = json.dumps({"versions": spot.versions(), "rows": ordered}, indent=1)
        asked.out.write_text(text + "\n", "utf-8")
    port.close()


if __name__ == "__main__":
    main()
