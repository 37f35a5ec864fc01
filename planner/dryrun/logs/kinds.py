"""Which layers of a model are alike, by its config; and the config of a shallower model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEPTH = ("num_hidden_layers", "n_layer")
"""What config.json files call the number of layers."""


def depth_of(config: Mapping[str, Any]) -> int:
    """Layers of a model.

    Raises:
        ValueError: when the config does not say.
    """
    for key in DEPTH:
        if key in config:
            return int(config[key])
    raise ValueError("config: num_hidden_layers is missing; it says how many layers there are.")


def layer_kinds(config: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """What tells each layer from others: equal entries are layers of one kind.

    ``config`` has every field filled in, as transformers' config classes do.
    """
    layers = depth_of(config)
    lists = [
        value
        for key, value in sorted(config.items())
        if isinstance(value, (list, tuple)) and len(value) == layers and "dtype" not in key
    ]
    dense = int(config.get("first_k_dense_replace") or 0)
    plain = set(config.get("mlp_only_layers") or ())
    stride = int(config.get("decoder_sparse_step") or 1)
    return [
        (*(str(value[i]) for value in lists), i < dense, i in plain, (i + 1) % stride == 0)
        for i in range(layers)
    ]


def shallow(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """The config of the model's first layers."""
    whole = depth_of(config)
    cut = {
        key: value[:layers] if isinstance(value, (list, tuple)) and len(value) == whole else value
        for key, value in config.items()
    }
    for key in DEPTH:
        if key in cut:
            cut[key] = layers
    if "mlp_only_layers" in cut and cut["mlp_only_layers"]:
        cut["mlp_only_layers"] = [i for i in cut["mlp_only_layers"] if i < layers]
    return cut
