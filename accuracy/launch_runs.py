"""What the host needs to launch a layer's kernels in training, on this machine's card.

The models are so narrow that no kernel takes time, at two depths: the difference is layers, the
rest is paid once a pass. Each pass is timed from a device that waits to one that has done all, and
its kernels are counted by torch's profiler. Imports torch.
"""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch

WIDTH, VOCABULARY, ROWS, TOKENS = 64, 1024, 1, 64
FAMILIES = ("qwen2", "llama", "qwen3", "gemma3_text", "qwen3_moe")
DEPTHS = (8, 24)
WARM_UP, TIMES = 3, 9
PLAIN = ("plain",)
SWITCHES = (
    PLAIN, ("autocast",), ("lora",), ("checkpointed",), ("eager",), ("padded",),
    ("fsdp2",), ("fsdp2", "checkpointed"), ("fsdp2", "lora"), ("lora", "checkpointed"),
    ("liger",),
)  # fmt: skip
"""Of the first family; the others are plain alone. Liger patches it for good, so it is last."""


def rows(device: str) -> Iterator[dict[str, Any]]:
    """A row of each family, switches and depth; of one that cannot run, why."""
    for family in FAMILIES:
        for switches in SWITCHES if family == FAMILIES[0] else (PLAIN,):
            for layers in DEPTHS:
                row = {"part": "launches", "family": family, "layers": layers}
                row["switches"] = list(switches)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = measured(family, switches, layers, device)
                except Exception as error:  # what a library says is the row's answer
                    found = {"refused": f"{type(error).__name__}: {error}"[:300]}
                yield {**row, **found}
                gc.collect()


def measured(
    family: str, switches: tuple[str, ...], layers: int, device: str
) -> dict[str, Any]:
    """Seconds of each pass, the median, and its kernels."""
    with ExitStack() as stack:
        model, inside = _made(family, switches, layers, device, stack)
        asked = torch.ones(ROWS, TOKENS, dtype=torch.long, device=device)
        given: dict[str, Any] = {"input_ids": asked, "use_cache": False}
        if "padded" in switches:
            given["attention_mask"] = torch.ones_like(asked)
            given["attention_mask"][0, 0] = 0
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        updates = torch.optim.AdamW(trained, fused=device != "cpu")
        hold: dict[str, Any] = {}

        def scored() -> None:
            with torch.no_grad(), inside():
                model(**given)

        def forward() -> None:
            with inside():
                hold["out"] = model(**given).last_hidden_state

        def backward() -> None:
            hold.pop("out").float().sum().backward()

        def update() -> None:
            updates.step()
            updates.zero_grad(set_to_none=True)

        passes = {"scored": scored, "forward": forward, "backward": backward, "update": update}
        found: dict[str, list[float]] = {name: [] for name in passes}
        for _ in range(WARM_UP + TIMES):
            for name, run in passes.items():
                found[name].append(_seconds(run, device))
        told = {name: statistics.median(times[WARM_UP:]) for name, times in found.items()}
        return {"seconds": told, "kernels": _kernels(passes, device)}


def _seconds(run: Callable[[], None], device: str) -> float:
    synchronize = torch.cuda.synchronize if device != "cpu" else lambda: None
    synchronize()
    start = time.perf_counter()
    run()
    synchronize()
    return time.perf_counter() - start


def _kernels(passes: dict[str, Callable[[], None]], device: str) -> dict[str, int]:
    """Kernels, copies and fills that each pass launches."""
    if device == "cpu":
        return {}
    from torch._C._autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    found = {}
    for name, run in passes.items():
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
            run()
            torch.cuda.synchronize()
        found[name] = sum(event.device_type == DeviceType.CUDA for event in seen.events() or ())
    return found


def _made(
    family: str, switches: tuple[str, ...], layers: int, device: str, stack: ExitStack
) -> tuple[Any, Callable[[], AbstractContextManager[Any]]]:
    """A body with random weights, and what its forward runs inside of."""
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0,
    }  # fmt: skip
    if family == "qwen3_moe":
        sizes |= {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": WIDTH}
    how = "eager" if "eager" in switches else "sdpa"
    settings = transformers.AutoConfig.for_model(family, **sizes, attn_implementation=how)
    wide = "autocast" in switches or "fsdp2" in switches
    if "liger" in switches:
        from liger_kernel.transformers import (  # type: ignore[import-not-found]
            apply_liger_kernel_to_qwen2,
        )

        apply_liger_kernel_to_qwen2(cross_entropy=False, fused_linear_cross_entropy=False)
    with torch.device(device):
        model: Any = transformers.AutoModel.from_config(
            settings, dtype=torch.float32 if wide else torch.bfloat16
        )
    model.train()
    if "lora" in switches:
        import peft

        chosen = peft.LoraConfig(r=16, target_modules="all-linear")
        model = peft.get_peft_model(model, chosen)
    if "checkpointed" in switches:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if "lora" in switches:
            model.enable_input_require_grads()
    if "fsdp2" in switches:
        _sharded(model, device, stack)
    if "autocast" in switches:
        return model, lambda: torch.autocast(torch.device(device).type, torch.bfloat16)
    return model, nullcontext


def _sharded(model: Any, device: str, stack: ExitStack) -> None:
    """Rank 0 of eight by FSDP2, as a trial plays it: collectives bring nothing."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    stack.callback(dist.destroy_process_group)
    mesh = init_device_mesh(torch.device(device).type, (8,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    body = model.get_base_model() if hasattr(model, "get_base_model") else model
    for layer in body.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
