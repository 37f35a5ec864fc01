"""Real steps under DistributedDataParallel: its buckets are there from start to end."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from accuracy.real_step import build
from live_bytes import LiveBytes
from planner import catalog
from planner.estimate import estimate
from planner.plan import Plan
from test_real_steps import CONFIGS, CUBLAS, layer_gradient_bytes


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    """One process: buckets do not depend on how many there are."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.usefixtures("group")
def test_gradients_and_their_buckets(micro_batches: int) -> None:
    config = {**CONFIGS["llama"], "model_type": "llama"}
    plan = Plan(
        model="tiny/model",
        config=catalog.encode_config(config),
        method="sft",
        gpus=2,
        sharding="ddp",
        master_dtype="none",
        prompts_per_step=2 * micro_batches,
        prompt_tokens=16,
        response_tokens=16,
        batch_shape="full",
        attention="eager",
        logits="full",
    )
    torch.set_num_threads(1)
    tracker, found = LiveBytes(), {}
    with warnings.catch_warnings(), tracker:
        warnings.simplefilter("ignore")
        model = build(config, plan)
        wrapped = DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for _ in range(2):
            for _ in range(micro_batches):
                ids = torch.randint(3, 1000, (1, 32))
                tracker.reset_peak()
                loss = wrapped(input_ids=ids, labels=ids).loss
                found["policy forward"] = tracker.peak
                tracker.reset_peak()
                loss.backward()
                found["policy backward"] = tracker.peak
                del loss
            tracker.reset_peak()
            optimizer.step()
            found["optimizer step"] = tracker.peak
            optimizer.zero_grad(set_to_none=True)
    phases = {phase.name: phase for phase in estimate(plan).phases}
    for name, live in found.items():
        over = phases[name].requested_bytes - CUBLAS - live
        spare = layer_gradient_bytes(plan) if name == "policy backward" else 0
        assert -1e-3 * live <= over <= spare + 1e-3 * live, (name, phases[name].instant, over)
