"""One rank of a mesh, really run: transformers' tensor parallelism, and torch's 1F1B schedule.

Tensor parallelism runs on fake tensors in a group that answers every collective at once, a pipeline
in two processes. Storages are counted as in any run. As a program it prints the figures of one
rank: ``python tests/real_mesh.py tensor 2 eager``, ``python tests/real_mesh.py pipeline 0 FILE``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.distributed.tensor_parallel import apply_tensor_parallelism
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from live_bytes import LiveBytes

SIZES = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 1024,
    "tie_word_embeddings": False,
}
TOKENS = 1024
NARROW = SIZES | {"hidden_size": 256, "intermediate_size": 1024, "head_dim": 16}
STAGE_TOKENS = 128
STAGES, MICRO_BATCHES, STAGE_LAYERS = 2, 4, 2


class Seen(LiveBytes):
    """Live bytes, and the collectives that are asked for, by kind."""

    def __init__(self, known: Iterable[torch.Tensor]) -> None:
        super().__init__(known)
        self.collectives: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented
        if "c10d" in str(func):
            self.collectives[str(func).split(".")[1]] += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


def tensor_parallel(ranks: int, attention: str, layers: int) -> Counter[str]:
    """Bytes saved by all layers, and all-reduces forward and backward, of one rank."""
    config = LlamaConfig(num_hidden_layers=layers, **SIZES)
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
    with FakeTensorMode(allow_non_fake_inputs=True):
        model: Any = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation=attention
        )
        if ranks > 1:
            apply_tensor_parallelism(model, mesh, _plan(model))
        hidden = torch.randn(1, TOKENS, SIZES["hidden_size"], dtype=torch.bfloat16)
        hidden.requires_grad_()
        own = [one.to_local() if isinstance(one, DTensor) else one for one in model.parameters()]
        with Seen(own) as seen:
            output = model.model(inputs_embeds=hidden, use_cache=False).last_hidden_state
            saved, forward = seen.live, seen.collectives["all_reduce"]
            output.float().sum().backward()
    backward = seen.collectives["all_reduce"] - forward
    return Counter(saved_bytes=saved, forward=forward, backward=backward)


def _plan(model: Any) -> dict[str, str]:
    """The model's own plan for its layers, by modules and weights."""
    found = {}
    for pattern, way in model.tp_plan.items():
        places = re.compile(re.escape(pattern).replace(r"\*", r"\d+") + r"(\.weight)?")
        for name in (*dict(model.named_modules()), *dict(model.named_parameters())):
            if "layers" in pattern and places.fullmatch(name):
                found[name] = way
    return found


class Part(nn.Module):
    """The layers of one stage with tables of their own; the first stage embeds."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        config = LlamaConfig(num_hidden_layers=STAGE_LAYERS, **NARROW)
        config._attn_implementation = "eager"
        torch.set_default_dtype(torch.bfloat16)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, at) for at in range(STAGE_LAYERS))
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size) if first else None
        torch.set_default_dtype(torch.float32)
        like = torch.empty(1, dtype=torch.bfloat16)
        self.tables = LlamaRotaryEmbedding(config)(like, torch.arange(STAGE_TOKENS)[None])

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.embed is not None:
            hidden = self.embed(hidden)
        for layer in self.layers:
            hidden = layer(hidden, position_embeddings=self.tables)
        return hidden


def pipeline(rank: int) -> dict[str, int]:
    """Bytes of one rank's second step of torch's own 1F1B: its peak, and where it begins."""
    first, last = rank == 0, rank == STAGES - 1
    part = Part(first)
    like = torch.empty(1, STAGE_TOKENS, NARROW["hidden_size"], dtype=torch.bfloat16)
    ids = torch.zeros(MICRO_BATCHES, STAGE_TOKENS, dtype=torch.int64)
    stage = PipelineStage(
        part,
        rank,
        STAGES,
        torch.device("cpu"),
        input_args=(ids[:1] if first else like.clone().requires_grad_(),),
        output_args=(like.clone().requires_grad_(),),
        input_grads=None if first else (like,),
        output_grads=None if last else (like,),
    )
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=lambda output, _: output.float().sum())
    targets = torch.zeros(MICRO_BATCHES)
    arguments = {"target": targets} if last else {}
    with LiveBytes((*part.parameters(), ids, targets)) as seen:
        for _ in range(2):
            begun = seen.live
            seen.reset_peak()
            schedule.step(*([ids] if first else []), **arguments, return_outputs=False)
    return {"peak_bytes": seen.peak, "begun_bytes": begun}


def run(*commands: Sequence[str]) -> list[dict[str, int]]:
    """The figures of processes that run side by side."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    begun = [
        subprocess.Popen(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, env=environment
        )
        for words in commands
    ]
    said = [process.communicate()[0] for process in begun]
    assert not any(process.returncode for process in begun)
    return [json.loads(each) for each in said]


def main(kind: str, number: str, word: str) -> None:
    """Print the figures of one rank as JSON."""
    if kind == "pipeline":
        rank = int(number)
        dist.init_process_group("gloo", init_method=f"file://{word}", rank=rank, world_size=STAGES)
        print(json.dumps(pipeline(rank)))
        return
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=int(number))
    few, more = (tensor_parallel(int(number), word, layers) for layers in (2, 4))
    print(json.dumps({name: (more[name] - few[name]) // 2 for name in more}))


if __name__ == "__main__":
    main(*sys.argv[1:])
