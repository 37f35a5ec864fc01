"""Configs from outside of families that no sum covers: answered at the sizes of the catalog's rows.

A dry run measured each of these rows as a whole, so a config has to have a row's sizes; what
changes no size (token ids, RoPE, number formats) may differ, and is then the row's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.catalog.families.multimodal import model_type_of
from planner.catalog.model_catalog import Model, models, supported

POSITIONS = "max_position_embeddings"
MOST_POSITIONS = 1 << 26
NO_SIZE = frozenset(
    (
        *("_name_or_path", "architectures", "auto_map", "transformers_version", "use_cache"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype"),
        *("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"),
        *("initializer_range", "rms_norm_eps", "router_aux_loss_coef", "aux_loss_alpha"),
        *("routed_scaling_factor", "swiglu_limit", "seq_aux", "ep_size", "pretraining_tp"),
        *("experts_per_token", "initial_context_length", "mamba_ssm_dtype", "max_window_layers"),
        *("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
        *("hidden_act", "rope_interleave", "model_type", "seen", POSITIONS),
    )
)
"""Settings that change neither a size nor a tensor's life; another activation, which does, is
looked at apart."""


def twin(config: Mapping[str, Any]) -> tuple[Model | None, str]:
    """The row of the same sizes and an empty string, or None and what is not covered.

    Raises:
        ValueError: for a length of positions that is none.
    """
    name = model_type_of(config)
    rows = [row for row in models() if row.model_type == name and row.architecture]
    if not rows:
        return None, supported(config)[1]
    nearest = min(rows, key=lambda row: len(_differences(config, row.config)))
    differences = _differences(config, nearest.config)
    if differences:
        return None, (
            f"no derived activation sum for {name}, and dry runs measured it at the sizes of "
            f"{' and '.join(row.id for row in rows)} only; {differences[0]}"
        )
    positions = config.get(POSITIONS, nearest.config[POSITIONS])
    if type(positions) is not int or not 0 < positions <= MOST_POSITIONS:
        raise ValueError(f"config: {POSITIONS} is not a whole number up to {MOST_POSITIONS}.")
    return nearest, ""


def twin_config(config: Mapping[str, Any], row: Model) -> dict[str, Any]:
    """The row's config with the given length of positions: what a link carries of it."""
    return {**row.config, POSITIONS: config.get(POSITIONS, row.config[POSITIONS])}


def _differences(config: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    """Each setting that the row has otherwise, in words, sizes of the model first."""
    found = []
    for key in (*row, *(key for key in config if key not in row)):
        given, known = config.get(key), row.get(key)
        if key == "hidden_act" and given in ("swish", None) and known == "silu":
            continue
        if key in NO_SIZE - {"hidden_act"} or given == known or not (given or known):
            continue
        found.append(f"{key[:40]} is {_shown(given)} and not {_shown(known)}")
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "not stated"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= 24 else text[:21] + "..."
