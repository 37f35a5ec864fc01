"""Real steps of FSDP2: rank 0 of eight, with real tensors over a fake process group.

``fully_shard`` does everything it does on a GPU, in the order it does it; collectives
move nothing. Live bytes of local storages are counted, in-place resizes included.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._pytree import tree_leaves

from live_bytes import LiveBytes
from planner import catalog
from planner.estimate import estimate
from planner.plan import Plan
from test_real_steps import CONFIGS, CUBLAS, layer_gradient_bytes

WORLD = 8


class LocalBytes(LiveBytes):
    """Counts local storages only: a DTensor's own storage claims the global size."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(isinstance(leaf, DTensor) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def resized(self, storage: torch.UntypedStorage, size: int) -> None:
        """FSDP2 frees gathered weights by resizing them to nothing, which no mode sees."""
        if storage._cdata in self.sizes:
            origin, before = self.sizes[storage._cdata]
            self.sizes[storage._cdata] = (origin, size)
            self.live += size - before
            if self.live > self.peak:
                self.peak = self.live
                self.at_peak = Counter(self.sizes.values())


@pytest.fixture(scope="module")
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
    yield init_device_mesh("cpu", (WORLD,))
    dist.destroy_process_group()


def real_step(
    plan: Plan, config: dict[str, Any], mesh: DeviceMesh, monkeypatch: Any
) -> dict[str, int]:
    """Peak live bytes of forward and backward, Adam's states (DTensors) not included."""
    tracker = LocalBytes()
    resize = torch.UntypedStorage.resize_

    def resized(storage: torch.UntypedStorage, size: int) -> Any:
        result = resize(storage, size)
        tracker.resized(storage, size)
        return result

    monkeypatch.setattr(torch.UntypedStorage, "resize_", resized)
    settings = transformers.AutoConfig.for_model(**config, torch_dtype="float32")
    settings.use_cache = False
    reduced = torch.float32 if plan.reduce_dtype == "fp32" else torch.bfloat16
    options = {
        "mesh": mesh,
        "mp_policy": MixedPrecisionPolicy(torch.bfloat16, reduced),
        "reshard_after_forward": plan.reshard_after_forward,
    }
    found: dict[str, int] = {}
    with tracker:
        model = transformers.AutoModelForCausalLM.from_config(
            settings, attn_implementation=plan.attention
        )
        for layer in model.model.layers:
            fully_shard(layer, **options)
        fully_shard(model, **options)
        gc.collect()
        model.train()
        if plan.gradient_checkpointing == "full":
            model.activation_checkpointing_enable({"use_reentrant": False})
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        length = plan.prompt_tokens + plan.response_tokens
        for _ in range(2):
            for _ in range(plan.prompts_per_step // WORLD):
                ids = torch.randint(3, config["vocab_size"], (1, length))
                tracker.reset_peak()
                loss = model(input_ids=ids, labels=ids).loss
                found["policy forward"] = tracker.peak
                tracker.reset_peak()
                loss.backward()
                found["policy backward"] = tracker.peak
                del loss, ids
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return found


CASES = [
    {"gradient_checkpointing": "full", "length": 16},
    {"gradient_checkpointing": "full", "length": 16, "prompts_per_step": 2 * WORLD},
    {"gradient_checkpointing": "full", "length": 128},
    {"gradient_checkpointing": "none", "length": 16},
    {"gradient_checkpointing": "none", "length": 64, "reduce_dtype": "bf16"},
    {"gradient_checkpointing": "full", "length": 16, "reshard_after_forward": False},
    {"gradient_checkpointing": "full", "length": 128, "layers": 16, "vocab_size": 200},
    {"gradient_checkpointing": "full", "length": 128, "family": "qwen3_moe"},
    # Four experts over eight ranks: the first four hold one each, and what moves is padded.
    {"gradient_checkpointing": "full", "length": 128, "family": "mixtral"},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_rank_zero_holds_what_the_real_step_does(
    case: dict[str, Any], mesh: DeviceMesh, monkeypatch: Any
) -> None:
    given = dict(case)
    half = given.pop("length")
    family = given.pop("family", "llama")
    config = {
        **CONFIGS[family],
        "model_type": family,
        "num_hidden_layers": given.pop("layers", 8),
        "vocab_size": given.pop("vocab_size", 1000),
    }
    plan = Plan(
        **{
            "model": "tiny/model",
            "config": catalog.encode_config(config),
            "method": "sft",
            "gpus": WORLD,
            "sharding": "fsdp2",
            "prompts_per_step": WORLD,
            "prompt_tokens": half,
            "response_tokens": half,
            "batch_shape": "full",
            "attention": "eager",
            "logits": "full",
            **given,
        }
    )
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = real_step(plan, config, mesh, monkeypatch)
    phases = {phase.name: phase for phase in estimate(plan).phases}
    for name, live in real.items():
        moments = sum(t.bytes for t in phases[name].terms if t.name == "Adam moments")
        over = phases[name].requested_bytes - CUBLAS - moments - live
        # A layer's gradients count in full while its backward runs, and so do the shards of
        # the layer that is being reduced: a little too much, never too little.
        # Without checkpoints these peak at the loss, where nothing is rounded up.
        layers_peak = name == "policy backward" and plan.gradient_checkpointing == "full"
        spare = 1.5 * layer_gradient_bytes(plan) if layers_peak else 0
        # The closed form follows the product's own step, whose root is a wrapper around the model;
        # here the model is the root, and holds up to 21 kB more that nobody has traced yet.
        assert -3e-3 * live - 21_000 <= over <= spare + 3e-3 * live, (
            name,
            phases[name].instant,
            over,
            live,
        )
