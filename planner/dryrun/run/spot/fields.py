"""Fields of an architecture, as a model's modules and its config show them."""

from __future__ import annotations

from inspect import getsource
from typing import Any

from torch import nn

from planner.dryrun.run.spot.cache import cache_of
from planner.dryrun.run.spot.language import first, stated
from planner.steps import anatomy, models

POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")


def tables_of(model: nn.Module) -> list[list[int]]:
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


def architecture_of(model: nn.Module, settings: Any, layers: nn.ModuleList) -> dict[str, Any]:
    """Fields of an :class:`~planner.catalog.architecture.Architecture`, as the model has them."""
    head, table = models.head(model), anatomy.embedding_of(models.causal(model))
    hidden = int(head.weight.shape[1])
    heads = int(first(settings, HEADS) or 1)
    counts = [_experts(layer) for layer in layers]
    experts = max(counts)
    width = first(settings, ("intermediate_size", "ffn_dim", "n_inner", "decoder_ffn_dim"))
    inner = int(width or 4 * hidden)
    names = {name.rpartition(".")[2] for name, _ in layers.named_modules()}
    found: dict[str, Any] = {
        "hidden": hidden,
        "layers": len(layers),
        "intermediate": inner,
        "heads": heads,
        "vocab": int(head.weight.shape[0]),
        "max_positions": int(first(settings, POSITIONS) or 1 << 20),
        "tied": head.weight is getattr(table, "weight", None),
        "activation": str(stated(settings, "hidden_act") or "as transformers has it"),
        "gated": bool({"gate_proj", "gate_up_proj", "w1"} & names),
        "logit_softcap": float(stated(settings, "final_logit_softcapping") or 0),
        "casts_logits": any(
            "lm_head(" in line and ".float()" in line
            for line in getsource(type(models.causal(model)).forward).splitlines()
        ),
        "experts": experts,
        "experts_per_token": min(
            int(first(settings, TOP_K) or 1),
            experts,
        ),
        "expert_intermediate": int(first(settings, ("moe_intermediate_size",)) or inner)
        if experts
        else 0,
        "dense_layers": [at for at, count in enumerate(counts) if not count] if experts else [],
    }
    return found | cache_of(settings, len(layers), heads, hidden)


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
