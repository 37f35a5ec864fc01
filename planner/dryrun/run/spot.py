"""Coefficients of any decoder that transformers builds, measured on the spot. Imports torch.

The model is built whole on the meta device, so that its weights can be listed; then it is cut to
the first layers that hold every kind of layer, and observed as the catalog's models are
(:mod:`planner.dryrun.run.coefficients`). Nothing is known of the family but what its modules show.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from planner.dryrun.run import weights
from planner.dryrun.run.branches.routing import EVEN, routed
from planner.dryrun.run.coefficients import lengths_for, setting, setting_plan
from planner.dryrun.run.tracker import Tracker
from planner.dryrun.run.world import world
from planner.steps import anatomy, models
from planner.steps.stage import Stage

KINDS = "0123456789abcdefghijklmnopqrstuvwxyz"
PLACE = re.compile(r"idx|index|_id$|number|^training$|^_")
"""Attributes that say where a layer stands, not what it is."""


def measure(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What :mod:`planner.catalog.measured` reads of a model, as plain data.

    ``names`` are settings such as ``sdpa/padded/bf16``; one that transformers refuses stands in
    ``refused`` with its reason.

    Raises:
        ValueError: with the reason, for a config that no decoder of transformers is built from.
    """
    settings, notes = _settings(config)
    model = _built(settings)
    layers = models.layers(model)
    kinds = _kinds(layers, settings)
    if max(kinds) >= len(KINDS):
        raise ValueError(f"its layers are of more than {len(KINDS)} kinds")
    whole = weights.rows_of(model)
    listed = [row for row in whole if not anatomy.TOWER.search(row[0])]
    if len(listed) < len(whole):
        notes.append(
            f"{settings.model_type} holds towers that text does not go through; their weights come "
            "on top."
        )
    found: dict[str, Any] = {
        "layers": "".join(KINDS[kind] for kind in kinds),
        "words": _words(layers, kinds, settings),
        "weights": listed,
        **weights.sentences_of(model),
        "tables": _tables(model),
        "notes": notes,
        "architecture": _architecture(model, settings, layers),
        "refused": {},
        "settings": {},
    }
    depth = _depth(kinds)
    for name in names:
        # A model that cannot be cut runs whole; one that makes tensors on the CPU and moves them
        # runs with all of them on the device.
        for layers_run, here in ((depth, None), (len(kinds), None), (len(kinds), "meta")):
            try:
                with torch.device(here) if here else nullcontext():
                    measured, said = _setting(config, name, kinds, layers_run)
                found["settings"] |= measured
                found["supposed"] += [each for each in said if each not in found["supposed"]]
                found["refused"].pop(name, None)
                break
            except MemoryError:
                raise
            except Exception as error:  # what a model's own code raises is about this setting
                found["refused"][name] = _sentence(error)
            finally:
                gc.collect()
    return found


def _settings(config: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The config object of the language model, and what is to be said of it."""
    import transformers

    known = transformers.CONFIG_MAPPING
    name = config["model_type"]
    if name not in known:
        raise ValueError(
            f"transformers {transformers.__version__} has no model type {name!r}; "
            "code of a repository's own is never run"
        )
    settings = models.settings_of(config, "eager")
    causal = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    if type(settings) not in causal:
        raise ValueError(
            f"transformers {transformers.__version__} has no causal language model of {name}: "
            "encoder-decoders and models without a decoder's head are not planned"
        )
    notes = []
    if settings.model_type != name:
        notes.append(
            f"{name} is multimodal, and only its language model ({settings.model_type}) is "
            "planned; weights and activations of its towers come on top."
        )
    return settings, notes


def _built(settings: Any) -> nn.Module:
    from transformers.initialization import no_init_weights

    try:
        with no_init_weights():
            return models.language_model(Stage("meta"), settings, torch.bfloat16)
    except MemoryError:
        raise
    except Exception as error:  # whatever a model's constructor raises is about this config
        raise ValueError(
            f"transformers cannot build {settings.model_type} from it: {_sentence(error)}"
        ) from None


def _sentence(error: BaseException) -> str:
    first = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {first[:240]}"


def _setting(
    config: Mapping[str, Any], name: str, kinds: list[int], depth: int
) -> tuple[dict[str, Any], list[str]]:
    """The polynomials of one setting, of a model cut to its first layers, and what they suppose."""
    plan = setting_plan(name)
    with world(plan) as (tracker, stage, _), tracker:
        settings = models.settings_of(config, stage.attention(plan.attention))
        model = models.language_model(stage, settings, models.dtype_of(plan))
        shorten(model, depth)
        model.train()
        with _one_language(settings):
            lengths, chunk = _lengths(model, tracker)
            found = setting(model, stage, tracker, name, kinds[:depth], lengths, chunk)
    return found, [note for note in tracker.log.notes if note == EVEN]


def _one_language(settings: Any) -> AbstractContextManager[Any]:
    """An adapter for a language takes the rows of that language: all, where there is no other."""
    from torch.fx.experimental import _config

    alone = len(_stated(settings, "languages") or ()) == 1
    return patch.object(_config, "meta_nonzero_assume_all_nonzero", alone)


def _lengths(model: nn.Module, tracker: Tracker) -> tuple[tuple[int, ...], int]:
    """Lengths that the positions allow; short ones where a loop takes a turn for each token.

    And the tokens of the chunks that layers pad rows to, where the lengths are whole ones; else 1.
    """
    settings = models.causal(model).config

    def operators(tokens: int) -> int:
        before = tracker.operators
        ids = torch.zeros((2, tokens), dtype=torch.int64, device=next(model.parameters()).device)
        with torch.no_grad():
            models.hidden_states(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        return tracker.operators - before

    loops = operators(32) > 1.2 * operators(16)
    positions = int(_first(settings, POSITIONS) or 1 << 20)
    chunks = {getattr(each, CHUNK, 0) for each in models.layers(model).modules()} - {0, None}
    chunk = chunks.pop() if len(chunks) == 1 else 1
    lengths = lengths_for(min(positions, LOOPED) if loops else positions, chunk)
    return lengths, 1 if lengths[0] % chunk else chunk


def shorten(model: nn.Module, depth: int) -> None:
    """Keep the first layers of a model that is built, and have its config say so."""
    layers = models.layers(model)
    whole = len(layers)
    del layers[depth:]
    for settings in {id(each): each for each in _configs(model)}.values():
        for key, value in list(vars(settings).items()):
            if isinstance(value, (list, tuple)) and len(value) == whole:
                object.__setattr__(settings, key, value[:depth])
            elif key in DEPTH and value == whole:
                object.__setattr__(settings, key, depth)


LOOPED = 32
"""Tokens of the longest row where every token is a turn: a thousand would take minutes."""
CHUNK = "chunk_size"
"""What layers call the tokens of a chunk, whose scans pad rows to whole ones."""
DEPTH = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")


def _configs(model: nn.Module) -> list[Any]:
    return [each.config for each in model.modules() if getattr(each, "config", None) is not None]


def _depth(kinds: list[int]) -> int:
    """Layers that hold every kind before the last one, of which nothing can be read."""
    first = [kinds.index(kind, 1) if kind in kinds[1:] else 0 for kind in set(kinds)]
    return min(max(first) + 2, len(kinds))


def _kinds(layers: nn.ModuleList, settings: Any) -> list[int]:
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


def _words(layers: nn.ModuleList, kinds: list[int], settings: Any) -> list[str]:
    """What a person reads before ``layer``, for each kind; nothing where all are alike."""
    count = max(kinds) + 1
    if count == 1:
        return [""]
    types = _stated(settings, "layer_types") or _stated(settings, "layers_block_type")
    words = []
    for kind in range(count):
        at = kinds.index(kind)
        named = types and len(types) == len(kinds)
        words.append(str(types[at]) if named else type(layers[at]).__name__)
    plain = [word.replace("_", "-") for word in words]
    return [
        f"{word} " if plain.count(word) == 1 else f"{word} {at} " for at, word in enumerate(plain)
    ]


POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")


def _tables(model: nn.Module) -> list[list[int]]:
    """Rows and columns of tables outside the layers that hold more than the vocabulary's."""
    causal = models.causal(model)
    tokens = anatomy.embedding_of(causal)
    most = 0 if tokens is None else tokens.weight.numel()
    inside = {id(each) for each in models.layers(model).modules()}
    return [
        list(each.weight.shape)
        for name, each in causal.named_modules()
        if isinstance(each, nn.Embedding) and id(each) not in inside
        if each.weight.numel() > most and not anatomy.TOWER.search(name)
    ]


def _first(settings: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = _stated(settings, name)
        if isinstance(value, int) and value > 0:
            return value
    return None


def _stated(settings: Any, name: str) -> Any:
    """A config's attribute; None where it has none, or another one for each layer."""
    try:
        return getattr(settings, name, None)
    except (ValueError, RuntimeError, AttributeError):
        return None


def _architecture(model: nn.Module, settings: Any, layers: nn.ModuleList) -> dict[str, Any]:
    """Fields of an :class:`~planner.catalog.architecture.Architecture`, as the model has them."""
    head, table = models.head(model), anatomy.embedding_of(models.causal(model))
    hidden = int(head.weight.shape[1])
    heads = int(_first(settings, HEADS) or 1)
    counts = [_experts(layer) for layer in layers]
    experts = max(counts)
    width = _first(settings, ("intermediate_size", "ffn_dim", "n_inner", "decoder_ffn_dim"))
    inner = int(width or 4 * hidden)
    names = {name.rpartition(".")[2] for name, _ in layers.named_modules()}
    found: dict[str, Any] = {
        "hidden": hidden,
        "layers": len(layers),
        "intermediate": inner,
        "heads": heads,
        "vocab": int(head.weight.shape[0]),
        "max_positions": int(_first(settings, POSITIONS) or 1 << 20),
        "tied": head.weight is getattr(table, "weight", None),
        "activation": str(_stated(settings, "hidden_act") or "as transformers has it"),
        "gated": bool({"gate_proj", "gate_up_proj", "w1"} & names),
        "logit_softcap": float(_stated(settings, "final_logit_softcapping") or 0),
        "experts": experts,
        "experts_per_token": min(
            int(_first(settings, TOP_K) or 1),
            experts,
        ),
        "expert_intermediate": int(_first(settings, ("moe_intermediate_size",)) or inner)
        if experts
        else 0,
        "dense_layers": [at for at, count in enumerate(counts) if not count] if experts else [],
    }
    return found | _cache(settings, len(layers), heads, hidden)


TOP_K = (
    *("num_experts_per_tok", "moe_topk", "num_experts_per_token", "top_k_experts", "moe_top_k"),
    *("num_selected_experts", "moe_k", "top_k", "moe_router_topk"),
)


def _experts(layer: nn.Module) -> int:
    """Routed experts of a layer: entries of a list, or of the first size of a tensor of all.

    Where neither shows them, what a module of the layer says.
    """
    counts = [0]
    for name, module in layer.named_modules():
        if name.rpartition(".")[2] == "experts":
            counts.append(len(module) if isinstance(module, nn.ModuleList) else 0)
            counts += [each.shape[0] for each in module.parameters(False) if each.dim() == 3]
    return max(counts) or max(_count(module) for module in layer.modules())


def _count(module: nn.Module) -> int:
    found = getattr(module, "num_experts", 0)
    return found if isinstance(found, int) else 0


def _cache(settings: Any, layers: int, heads: int, hidden: int) -> dict[str, Any]:
    """Keys, values and states that a forward leaves, counted in the cache it returns.

    ``cache`` says in words what could not be counted; empty where all could.
    """
    head_dim = int(_first(settings, ("head_dim",)) or max(hidden // heads, 1))
    kv_heads = int(_first(settings, ("num_key_value_heads",)) or heads)
    told = {"kv_heads": kv_heads, "head_dim": head_dim}
    try:
        short, long = (_cached(settings, tokens) for tokens in (8, 16))
    except Exception as error:  # a forward with a cache that cannot run here is no reason to stop
        return {**told, "cache": f"its cache cannot be counted ({_sentence(error)})"}
    if len(short) != len(long):
        return {**told, "cache": "its cache holds other tensors for longer rows"}
    grows = [(b - a) // 8 for (a, _), (b, _) in zip(short, long, strict=True) if b != a]
    fixed = [(a, fp32) for (a, fp32), (b, _) in zip(short, long, strict=True) if b == a]
    stateful = 0 if not fixed else max(layers - len(grows) // 2, 1)
    stands = layers - stateful
    per_token = sum(grows)
    states = sum(size for size, fp32 in fixed if fp32)
    last = sum(size for size, fp32 in fixed if not fp32)
    told |= {"stateful_layers": stateful} if stateful else {}
    if stateful:
        told |= {
            "state_values": -(-states // stateful),
            "convolution_values": -(-last // stateful),
        }
    if not stands:
        return {**told, "cache": "" if not per_token else "its cache grows beside fixed states"}
    if per_token == 2 * kv_heads * head_dim * stands:
        return {**told, "cache": ""}
    if per_token % (2 * stands) == 0 and per_token:
        # Layers of different widths: their mean, as one head.
        return {**told, "kv_heads": 1, "head_dim": per_token // (2 * stands), "cache": ""}
    return {**told, "cache": "its layers cache keys and values of different widths"}


def _cached(settings: Any, tokens: int) -> list[tuple[int, bool]]:
    """Numbers of one row in each tensor of the cache, and whether it is in fp32."""
    model = _built(settings).eval()
    ids = torch.zeros((1, tokens), dtype=torch.int64, device="meta")
    body = models.body(model)
    before = settings.use_cache
    settings.use_cache = True
    try:
        with torch.no_grad(), routed(lambda _: None):
            output = body(**anatomy.taken(body, {"input_ids": ids, "use_cache": True}))
    finally:
        settings.use_cache = before
    held = next(
        (getattr(output, name, None) for name in ("past_key_values", "cache_params", "state")),
        None,
    )
    if held is None:
        raise ValueError("it returns no cache")
    return [(each.numel(), each.dtype is torch.float32) for each in _tensors(held, set())]


def _tensors(held: Any, seen: set[int]) -> list[torch.Tensor]:
    if id(held) in seen:
        return []
    seen.add(id(held))
    if isinstance(held, torch.Tensor):
        return [held] if held.is_floating_point() else []
    if isinstance(held, Mapping):
        parts = list(held.values())
    elif isinstance(held, (list, tuple)):
        parts = list(held)
    else:
        parts = list(vars(held).values()) if hasattr(held, "__dict__") else []
    return [each for part in parts for each in _tensors(part, seen)]
