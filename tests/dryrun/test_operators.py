"""A dry run calls the operators that a real run of the same step calls, in the same order."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from accuracy.cpu_cases import CHECKPOINTED, HF, PADDED, SDPA, Case
from live_bytes import LiveBytes
from planner.dryrun.run import results
from planner.dryrun.run.world import world
from planner.plan.methods import part
from planner.steps import run as runs
from planner.steps.stage import Stage

torch.set_num_threads(1)

WITH_DATA_ONLY = (
    "aten::_local_scalar_dense",  # is a mask all true? which step is the optimizer at?
    "aten::lift_fresh",  # a tensor made of Python's numbers
    "aten::_fused_adamw_",  # in place, and without a kernel for tensors without data
)
ASSIGNED = ["aten::scalar_tensor", "aten::select", "aten::view", "aten::expand", "aten::copy_"]
FILLED = ["aten::select", "aten::fill_"]
"""``mask[:, 0] = 0`` without data, and with."""

CASES = (
    Case("sft", "qwen3", {**CHECKPOINTED, "prompts_per_step": 4, "optimizer": "adamw-foreach"}),
    Case("sft", "gemma2", {**PADDED, "logits": "chunked"}),
    Case("sft", "qwen3_moe", {"dtype": "bf16"}),
    Case("dpo", "llama", {"logits": "response"}),
    Case("grpo", "llama", {**SDPA, **PADDED, "entropy": True, "reward": "model"}),
    Case("grpo", "qwen3", {"logits": "fused", "finetuning": "lora", "lora_rank": 4}),
    Case("grpo", "llama", {**HF, "response_tokens": 3, "logits": "response"}),
    Case("intuitor", "qwen3", {"self_certainty_gradient": True}),
    Case("rloo", "qwen3", {"logits": "response"}),
    Case("reinforce++", "llama", {"logits": "response"}),
    Case("ppo", "qwen2", {"response_tokens": 1, "logits": "chunked"}),
    Case("grade", "llama", {"grade_kl": "online", "grade_top_k": 8, "grade_dense_scatter": True}),
    Case("grade", "qwen3", {"grade_step_checkpointing": True, "grade_kl": "batch"}),
)


class Names(TorchDispatchMode):
    """Operators, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # A checkpoint's copy of the random state is made by no operator; the dry run counts it so.
        if not (func is torch.ops.aten.empty_like.default and args[0].dtype == torch.uint8):
            self.seen.append(func.name().split(".")[0])
        return func(*args, **(kwargs or {}))


def second_step(case: Case, stage: Stage, names: Names) -> list[str]:
    """Operators of the second of two steps."""
    step = part(case.method, "step", "step")
    run = runs.build(case.plan, stage, case.configs)
    step(run)
    names.seen.clear()
    step(run)
    return list(names.seen)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_dry_run_calls_what_a_real_run_calls(case: Case, monkeypatch: Any) -> None:
    # A result that is remembered comes without its operator; test_results.py holds them equal.
    monkeypatch.setattr(results, "REMEMBERED", frozenset())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        # The counter puts autograd's branches back as they are without a mode.
        with Names() as names, LiveBytes():
            real = second_step(case, Stage(), names)
        with Names() as names, world(case.plan, "cpu") as (tracker, stage, _), tracker:
            dry = second_step(case, stage, names)
    expected = alike(real)
    dry = alike(dry)
    at = next((at for at in range(len(dry)) if dry[:at] != expected[:at]), 0)
    assert dry == expected, (dry[at - 3 : at + 5], expected[at - 3 : at + 5])
    assert len(dry) > 100


def alike(names: list[str]) -> list[str]:
    """Without what a real run alone calls, and with assignments written in one way."""
    kept = [name for name in names if name not in WITH_DATA_ONLY]
    found: list[str] = []
    while kept:
        if kept[: len(ASSIGNED)] == ASSIGNED:
            found += FILLED
            del kept[: len(ASSIGNED)]
        else:
            found.append(kept.pop(0))
    return found
