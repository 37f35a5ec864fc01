"""Kernels that Inductor makes of a real layer, and the bytes of the buffers that each is given.

Counted as they are scheduled, after fusion. A processor schedules them here; what it does otherwise
than a card, copying the parts of a rotation apart, is switched to the card's way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import config, scheduler
from transformers import PretrainedConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

TOKENS = 256


def compiled_bytes(of: PretrainedConfig) -> tuple[float, float]:
    """Bytes a token of a layer's forward and backward outside its products and attention."""
    found: list[float] = []
    codegen = scheduler.Scheduler.codegen

    def counted(self: Any) -> Any:
        kernels = [one for one in self.nodes if not isinstance(one, CLOSED)]
        found.append(sum(one.get_read_write_buffers_sizes() for one in kernels) / TOKENS)
        return codegen(self)

    of._attn_implementation = "sdpa"
    layer = LlamaDecoderLayer(of, 0).to(torch.bfloat16)  # type: ignore[arg-type]
    tables = LlamaRotaryEmbedding(of)(torch.zeros(1), torch.arange(TOKENS)[None])  # type: ignore[arg-type]
    hidden = torch.randn(1, TOKENS, of.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    scheduler.Scheduler.codegen = counted  # type: ignore[method-assign]
    torch._dynamo.reset()
    try:
        with config.patch(force_pointwise_cat=True, fx_graph_cache=False):
            run = torch.compile(layer, dynamic=False)
            tables = tuple(table.to(torch.bfloat16) for table in tables)
            out = run(hidden, position_embeddings=tables)
            out = out[0] if isinstance(out, tuple) else out
            out.backward(torch.ones_like(out))
    finally:
        scheduler.Scheduler.codegen = codegen  # type: ignore[method-assign]
    forward, backward = found
    return forward, backward


CLOSED = (scheduler.ExternKernelSchedulerNode, scheduler.NopKernelSchedulerNode)
"""Products and attention, which Inductor calls; and what is no kernel."""
