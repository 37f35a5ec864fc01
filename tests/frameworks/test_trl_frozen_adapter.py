"""TRL's frozen copy of adapters that a policy comes with: its own code, with and without data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from accuracy.trl_cases import ADAPTERS, AUTOCAST, DDP, ENGINE, FSDP2, HF, KL, Case
from accuracy.trl_runs import dry_peaks, real_peaks
from dry_peaks import meets_dry_run
from framework_runs import COPIES, real_and_dry
from planner.frameworks.trl import FRAMEWORK, limits, own_step

torch.set_num_threads(1)

TOLERANCE = 1e-3
FROZEN: dict[str, Any] = {**ADAPTERS, "reference": "frozen-adapter"}
GRPO = Case("GRPO", "grpo", {**HF, **KL, **FROZEN, **AUTOCAST})
CASES = (
    Case("DPO", "dpo", {**FROZEN, **AUTOCAST}),
    GRPO,
    Case("RLOO in fp32", "rloo", {**ENGINE, "kl": "reward", **FROZEN}),
    Case("GRPO, DDP", "grpo", {**DDP, **HF, **KL, **FROZEN, **AUTOCAST}),
    Case("DPO, FSDP2", "dpo", {**FSDP2, **FROZEN, **AUTOCAST}),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_closed_form_is_what_trl_does(case: Case) -> None:
    plan = case.whole
    assert not own_step.refusal(plan)
    meets_dry_run(plan, within=TOLERANCE, code=FRAMEWORK.name)


@pytest.mark.parametrize(("case", "name"), [*zip(CASES[:2], COPIES, strict=True)], ids=str)
def test_every_phase_peaks_where_the_allocator_says(case: Case, name: str) -> None:
    real, dry = real_and_dry(case, lambda: real_peaks(case), lambda: dry_peaks(case), name)
    assert dry == pytest.approx(real, rel=TOLERANCE)


def test_the_copy_is_there_beside_what_trains() -> None:
    """Rank 4 on a layer's seven linear ones, in fp32; it has no gradients and no state."""
    base = replace(GRPO, changes={**GRPO.changes, "reference": "adapter-disabled"})
    with_copy, without = dry_peaks(GRPO), dry_peaks(base)
    sizes = GRPO.config
    hidden, wide = sizes["hidden_size"], sizes["intermediate_size"]
    kv = hidden // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    widths = 2 * 2 * hidden + 2 * (hidden + kv) + 3 * (hidden + wide)
    copy = 4 * 4 * widths * sizes["num_hidden_layers"]
    assert with_copy["optimizer step"] - without["optimizer step"] == copy


def test_the_script_that_is_exported_begins_with_new_adapters() -> None:
    """Of these TRL's reference is the base model."""
    plan = GRPO.whole
    assert not limits.step_obstacles(plan)
    in_the_way = [one for one in limits.obstacles(plan) if "adds new adapters" in one.why]
    assert [one.field for one in in_the_way] == ["reference"]
