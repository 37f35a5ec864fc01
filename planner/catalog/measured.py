"""Architectures that no family derives, and the coefficients a dry run measured for them.

``coefficients.json`` is written by ``python -m planner.dryrun.run.coefficients`` and read once, on
first use. See docs/coefficients.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from planner.catalog import spot
from planner.catalog.architecture import Architecture
from planner.catalog.schema import ModelFile, read_rows


@cache
def table() -> Mapping[str, Any]:
    """The whole file; without models where it does not exist."""
    place = files("planner.catalog") / "coefficients.json"
    if not place.is_file():
        return {"versions": {}, "models": {}}
    found: Mapping[str, Any] = json.loads(place.read_text("utf-8"))
    return found


def entry(key: str) -> Mapping[str, Any]:
    """What was measured of a model: a row of the catalog, or a config on the spot."""
    if key.startswith(spot.PREFIX):
        kept = spot.found(key)
        if kept is None:
            raise ValueError("config: its measurement is gone from this machine; measure it again.")
        return kept
    found: Mapping[str, Any] = table()["models"][key]
    return found


def setting_of(key: str, text: str, passes: str) -> tuple[Mapping[str, Any] | None, str]:
    """The polynomials of a setting, ``passes`` with gradients (``all``) or without (``none``).

    What the file of the catalog's models lacks may have been measured on the spot, or is measured
    now where somebody measures. Without an answer, the reason for which the model does not run so;
    empty where nobody has looked.
    """
    name = f"{text}/{passes}"
    if not key.startswith(spot.PREFIX):
        shipped = entry(key)
        if name in shipped["settings"]:
            return shipped["settings"][name], ""
        if text in shipped["refused"]:
            return None, str(shipped["refused"][text])
    spot_key, config = _spot_of(key)
    found, refused = _kept(spot_key, name, text)
    if found is None and not refused:
        spot.required(spot_key, config, (text,))
        found, refused = _kept(spot_key, name, text, afresh=True)
    return found, refused


def _kept(
    key: str, name: str, text: str, *, afresh: bool = False
) -> tuple[Mapping[str, Any] | None, str]:
    kept = spot.found(key, afresh=afresh) or {}
    found = kept.get("settings", {}).get(name)
    return found, "" if found else str(kept.get("refused", {}).get(text, kept.get("error", "")))


def runs(key: str, text: str) -> bool:
    """Whether a setting has been measured; nothing is measured to know."""
    name = f"{text}/none"
    return name in entry(key)["settings"] or bool(_kept(_spot_of(key)[0], name, text)[0])


def refused(key: str, text: str) -> bool:
    """Whether a setting has been seen not to run; nothing is measured to know."""
    shipped = entry(key)
    return text in shipped["refused"] or bool(_kept(_spot_of(key)[0], f"{text}/none", text)[1])


@cache
def _spot_of(key: str) -> tuple[str, Mapping[str, Any]]:
    """The key and the config under which a model is measured on this machine."""
    if key.startswith(spot.PREFIX):
        return key, entry(key)["config"]
    rows = read_rows("models.json", ModelFile).models
    config = spot.canonical(next(row.config for row in rows if row.id == key))
    return spot.key_of(config), config


@cache
def source(key: str) -> str:
    """Where the coefficients come from, in words."""
    here = key.startswith(spot.PREFIX)
    libraries = spot.versions() if here else table()["versions"]
    versions = ", ".join(f"{name} {version}" for name, version in libraries.items())
    return f"dry-run coefficients{' measured on the spot' if here else ''} ({versions})"


def spot_architecture(
    key: str, name: str, config: Mapping[str, Any]
) -> tuple[Architecture | None, str]:
    """The dimensions of a config whose layers are measured on this machine; else None and why."""
    kept = spot.found(key)
    if kept is None:
        spot.required(key, config)
        kept = spot.found(key)
    if kept is None:
        return None, UNMEASURED
    if "error" in kept:
        return None, str(kept["error"])
    sizes = dict(kept["architecture"])
    cache_words = sizes.pop("cache")
    sizes["dense_layers"] = tuple(sizes["dense_layers"])
    return Architecture(
        family=name, norm="rmsnorm", measured=key, uncounted_cache=cache_words, **sizes
    ), ""


def family_of(key: str) -> str:
    """The ``model_type`` of a config whose layers were measured on this machine."""
    return str(entry(key)["config"]["model_type"])


def tables(key: str) -> tuple[tuple[int, int], ...]:
    """Rows and columns of each embedding table that is larger than the vocabulary's."""
    return tuple((rows, columns) for rows, columns in (entry(key) if key else {}).get("tables", ()))


def notes(key: str) -> tuple[str, ...]:
    """What was noticed about a config while its layers were measured, as sentences."""
    kept = spot.found(key) if key else None
    return tuple(f"config: {note}" for note in (kept or {}).get("notes", ()))


UNMEASURED = (
    "nobody derived its sum, so a dry run has to measure its layers on this machine first, which "
    "takes seconds"
)
"""Why a config has no dimensions yet."""
NOBODY = "which nobody measured of"
"""Words of the sentence about a setting that was not measured."""


def waits(sentence: str) -> bool:
    """Whether a sentence asks for a measurement only: once the layers are measured, it is gone."""
    return UNMEASURED in sentence or NOBODY in sentence


def architecture_of(key: str, config: Mapping[str, Any]) -> Architecture | None:
    """The dimensions of a catalog model whose coefficients ship; None for any other key.

    They are read from its config, for the formulas of caches and FLOPs. Where keys and values
    differ in width (latent attention, which transformers caches expanded), ``head_dim`` is the mean
    of both.
    """
    if key not in table()["models"]:
        return None
    measured = entry(key)
    heads = int(config["num_attention_heads"])
    experts = _first(config, "n_routed_experts", "num_experts", "num_local_experts")
    layers = int(config["num_hidden_layers"])
    intermediate = int(config.get("intermediate_size") or config["moe_intermediate_size"])
    sparse = {
        layer
        for _, kind, _, _, _, places in measured["weights"]
        if kind == "experts"
        for layer, there in enumerate(places)
        if there == "1"
    }
    sliding = list(config.get("layer_types") or ()).count("sliding_attention")
    names = [row[0] for row in measured["weights"]]
    stateful = next(
        (row[5].count("1") for row in measured["weights"] if ".linear_attn." in row[0]), 0
    )
    states = _state_sizes(config) if stateful else (0, 0)
    return Architecture(
        family=str(config["model_type"]),
        hidden=int(config["hidden_size"]),
        layers=layers,
        intermediate=intermediate,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=_head_dim(config, heads),
        vocab=int(config["vocab_size"]),
        max_positions=int(config["max_position_embeddings"]),
        tied=not any(row[1] == "lm_head" for row in measured["weights"]),
        norm="rmsnorm",
        activation=str(config.get("hidden_act", "silu")),
        gated=any("gate_proj" in name or "gate_up_proj" in name for name in names),
        sliding_window=int(config["sliding_window"]) if sliding else 0,
        sliding_layers=sliding,
        logit_softcap=float(config.get("final_logit_softcapping") or 0.0),
        experts=experts,
        experts_per_token=int(config["num_experts_per_tok"]) if experts else 0,
        expert_intermediate=int(config.get("moe_intermediate_size") or intermediate)
        if experts
        else 0,
        dense_layers=tuple(layer for layer in range(layers) if layer not in sparse)
        if experts
        else (),
        measured=key,
        stateful_layers=stateful,
        state_values=states[0],
        convolution_values=states[1],
    )


def _state_sizes(config: Mapping[str, Any]) -> tuple[int, int]:
    """Numbers of a layer's state of one sequence, and of its convolution's last inputs."""
    keys = int(config["linear_num_key_heads"]) * int(config["linear_key_head_dim"])
    values = int(config["linear_num_value_heads"]) * int(config["linear_value_head_dim"])
    last_inputs = (2 * keys + values) * int(config["linear_conv_kernel_dim"])
    return values * int(config["linear_key_head_dim"]), last_inputs


def _first(config: Mapping[str, Any], *names: str) -> int:
    return next((int(config[name]) for name in names if config.get(name)), 0)


def _head_dim(config: Mapping[str, Any], heads: int) -> int:
    if config.get("kv_lora_rank"):
        keys = int(config["qk_nope_head_dim"]) + int(config["qk_rope_head_dim"])
        return (keys + int(config["v_head_dim"])) // 2
    return int(config.get("head_dim") or int(config["hidden_size"]) // heads)
