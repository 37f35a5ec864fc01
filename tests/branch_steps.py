"""Small models of many families, one step of them on any device, and what it ran and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from torch.utils._python_dispatch import TorchDispatchMode

from planner.dryrun.run.branches import implementation_name

TOKENS = 32
SMALL = dict(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    vocab_size=128,
    max_position_embeddings=512,
    pad_token_id=None,
    bos_token_id=None,
    eos_token_id=None,
)
GROUPED = {**SMALL, "num_key_value_heads": 2}
WIDE = {**GROUPED, "head_dim": 32}
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
LINEAR = dict(
    linear_num_value_heads=4,
    linear_num_key_heads=2,
    linear_key_head_dim=16,
    linear_value_head_dim=16,
    layer_types=["linear_attention", "full_attention"],
)
DRY = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def config(family: str) -> Any:
    """A configuration of two layers."""
    made = {
        "llama": lambda: hf.LlamaConfig(**GROUPED),
        "qwen2": lambda: hf.Qwen2Config(**GROUPED),
        "qwen3": lambda: hf.Qwen3Config(**WIDE),
        "mistral": lambda: hf.MistralConfig(**GROUPED, sliding_window=8),
        "gemma2": lambda: hf.Gemma2Config(**WIDE, sliding_window=8),
        "gemma3": lambda: hf.Gemma3TextConfig(**WIDE, sliding_window=8),
        "phi3": lambda: hf.Phi3Config(**GROUPED),
        "olmo2": lambda: hf.Olmo2Config(**GROUPED),
        "gpt2": lambda: hf.GPT2Config(
            n_embd=64, n_layer=2, n_head=4, vocab_size=128, n_positions=64, **DRY, **ENDLESS
        ),
        "gpt_neox": lambda: hf.GPTNeoXConfig(**SMALL),
        "qwen3_moe": lambda: hf.Qwen3MoeConfig(**WIDE, **EXPERTS),
        "qwen3_next": lambda: hf.Qwen3NextConfig(
            **WIDE, **EXPERTS, **LINEAR, shared_expert_intermediate_size=32
        ),
        "qwen3_5_text": lambda: hf.Qwen3_5TextConfig(**WIDE, **LINEAR),
        "qwen3_5_moe_text": lambda: hf.Qwen3_5MoeTextConfig(
            **WIDE, **EXPERTS, **LINEAR, shared_expert_intermediate_size=32
        ),
    }
    return made[family]()


ENDLESS = dict(bos_token_id=None, eos_token_id=None)


@dataclass
class Ran:
    """What one forward and backward did."""

    operators: list[str] = field(default_factory=list)
    saved: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Bytes and format of every storage that autograd kept, parameters aside."""

    @property
    def saved_bytes(self) -> int:
        return sum(size * count for (size, _), count in self.saved.items())


class Names(TorchDispatchMode):
    """Names of all operators; reading a value is what a step without data cannot do."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten._local_scalar_dense.default:
            self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@contextmanager
def kept(saved: Counter[tuple[int, str]], known: set[int]) -> Iterator[None]:
    """Counts each storage that autograd keeps inside, once."""
    seen: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known and storage._cdata not in seen:
            seen[storage._cdata] = storage
            saved[storage.nbytes(), str(tensor.dtype).removeprefix("torch.")] += 1
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield


def step(
    family: str,
    attention: str,
    batch_shape: str,
    device: str,
    *,
    dtype: torch.dtype = torch.bfloat16,
    tokens: int = TOKENS,
    autocast: bool = False,
    lengths: tuple[int, ...] = (),
    numbered: MutableMapping[torch.Tensor, int] | None = None,
) -> Ran:
    """Forward and backward of a model as its plan's batches are shaped.

    A packed row is of ``lengths``, or of two sequences; ``numbered`` is told how many.
    """
    ran = Ran()
    with torch.device(device):
        model = hf.AutoModelForCausalLM.from_config(
            config(family), attn_implementation=implementation_name(attention), dtype=dtype
        )
    model.train()
    rows = 1 if batch_shape == "packed" else 2
    ids = torch.zeros(rows, tokens, dtype=torch.int64, device=device)
    extra: dict[str, torch.Tensor] = {}
    if batch_shape == "padded":
        mask = torch.ones(rows, tokens, dtype=torch.int64)
        mask[0, :3] = 0
        extra["attention_mask"] = mask.to(device)
    if batch_shape == "packed":
        lengths = lengths or (20, tokens - 20)
        positions = torch.cat([torch.arange(length) for length in lengths])
        extra["position_ids"] = positions[None].to(device)
        if numbered is not None:
            numbered[extra["position_ids"]] = len(lengths)
    known = {tensor.untyped_storage()._cdata for tensor in model.parameters()}
    known |= {tensor.untyped_storage()._cdata for tensor in [ids, *extra.values()]}
    names = Names()
    lowered = torch.autocast("cpu", torch.bfloat16, enabled=autocast)
    with names, kept(ran.saved, known), lowered:
        logits = model(input_ids=ids, use_cache=False, **extra).logits
        loss = logits.float().sum()
    with names:
        loss.backward()
    ran.operators = names.names
    return ran
