"""Which layers of a decoder are alike, how many hold every kind, and a model cut to those."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

from torch import nn

from planner.dryrun.run.spot.language import stated
from planner.steps import models

KINDS = "0123456789abcdefghijklmnopqrstuvwxyz"
PLACE = re.compile(r"idx|index|_id$|number|^training$|^_")
"""Attributes that say where a layer stands, not what it is."""
DEPTH = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")


def shorten(model: nn.Module, places: Sequence[int]) -> None:
    """Keep the layers at these places of a model that is built, and have its config say so.

    The first of them may come again at the end.
    """
    layers = models.layers(model)
    whole = len(layers)
    again = [copy.deepcopy(layers[at]) for at in places[len(set(places)) :]]
    for settings in {id(each): each for each in _configs(model)}.values():
        for key, value in list(vars(settings).items()):
            if isinstance(value, (list, tuple)) and len(value) == whole:
                object.__setattr__(settings, key, type(value)(value[at] for at in places))
            elif key in DEPTH and value == whole:
                object.__setattr__(settings, key, len(places))
    del layers[len(set(places)) :]
    layers.extend(again)


def _configs(model: nn.Module) -> list[Any]:
    return [each.config for each in model.modules() if getattr(each, "config", None) is not None]


def places_of(kinds: list[int], depth: int = 0) -> list[int]:
    """The first layers that hold every kind before the last one, of which nothing can be read.

    ``depth`` is how many there have to be. Of a kind that only the model's last layer is, that
    layer is not the last here: the first comes again behind it.
    """
    first = [kinds.index(kind, 1) if kind in kinds[1:] else 0 for kind in set(kinds)]
    places = list(range(min(max(*first, depth) + 2, len(kinds))))
    alone = kinds[places[-1]] not in [kinds[at] for at in places[:-1]]
    return [*places, 0] if alone else places


def kinds_of(layers: nn.ModuleList, settings: Any) -> list[int]:
    """The kind of each layer: its modules, their sizes and switches, and its words in lists."""
    lists = [
        value
        for key, value in vars(settings).items()
        if isinstance(value, (list, tuple)) and len(value) == len(layers) and not PLACE.search(key)
    ]
    seen = [
        (_shape_of(layer), tuple(str(value[at]) for value in lists))
        for at, layer in enumerate(layers)
    ]
    order = list(dict.fromkeys(seen))
    if len(order) > len(KINDS):  # a switch counts layers: modules and sizes have to do
        plain = [tuple(part[:3] for part in shape) for shape, _ in seen]
        return [list(dict.fromkeys(plain)).index(each) for each in plain]
    return [order.index(each) for each in seen]


def _shape_of(layer: nn.Module) -> tuple[Any, ...]:
    return tuple(
        (
            name,
            type(module).__name__,
            tuple((key, tuple(weight.shape)) for key, weight in module.named_parameters("", False)),
            tuple(
                (key, value)
                for key, value in sorted(vars(module).items())
                if isinstance(value, (str, bool, int, type(None))) and not PLACE.search(key)
            ),
        )
        for name, module in layer.named_modules()
    )


def words_of(layers: nn.ModuleList, kinds: list[int], settings: Any) -> list[str]:
    """What a person reads before ``layer``, for each kind; nothing where all are alike."""
    count = max(kinds) + 1
    if count == 1:
        return [""]
    types = stated(settings, "layer_types") or stated(settings, "layers_block_type")
    words = []
    for kind in range(count):
        at = kinds.index(kind)
        named = types and len(types) == len(kinds)
        words.append(str(types[at]) if named else type(layers[at]).__name__)
    plain = [word.replace("_", "-") for word in words]
    return [
        f"{word} " if plain.count(word) == 1 else f"{word} {at} " for at, word in enumerate(plain)
    ]
