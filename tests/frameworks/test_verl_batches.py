"""The rows that a dry run gives verl's engine, as verl's own splitting cuts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import masking_utils
from verl.workers.utils.padding import build_attention_mask_from_nested

from accuracy.verl_cases import BUDGET, CONFIG, ONE, PACKED, Case
from dry_peaks import meets_dry_run
from planner.dryrun.logs import curve
from planner.dryrun.run.world import On
from planner.estimate import estimate
from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.run import batches, made, step
from planner.frameworks.verl.run.batches import batch
from planner.frameworks.verl.run.seams import engine
from planner.frameworks.verl.run.steps import Steps
from planner.plan import Plan
from planner.setup.quantities import quantities

torch.set_num_threads(1)

ROW = 96 + 64
"""Tokens of the cases' longest row."""
SMALL: dict[str, Any] = {"prompt_tokens": 8, "response_tokens": 8}


def _case(**changes: Any) -> Case:
    return Case("budget", "grpo", {**BUDGET, **changes}, CONFIG)


def _cut(plan: Plan, *, training: bool = True) -> list[list[int]]:
    """Tokens of each row of each micro-batch, by verl's own ``rearrange_micro_batches``."""
    data = batch(plan, training=training)
    budget = plan.max_tokens_per_micro_batch
    batches.tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=budget)
    return [
        each["input_ids"].offsets().diff().tolist()
        for each in engine.prepare_micro_batches(data)[0]
    ]


@pytest.mark.parametrize(("changes", "cut"), [
    ({}, [[ROW, ROW, 80], [ROW, ROW, 80]]),
    ({"max_tokens_per_micro_batch": 2 * ROW}, [[ROW] * 2] * 2),
    # A single token is no prompt and response.
    ({"max_tokens_per_micro_batch": 2 * ROW + 1}, [[ROW] * 2] * 2),
    # All rows of an update fit one budget.
    ({"max_tokens_per_micro_batch": 4000}, [[ROW] * 8]),
    # Budgets count no padding, so rows that are padded are capped ones.
    ({"batch_shape": "full"}, [[ROW] * 2] * 2),
    ({"batch_shape": "padded"}, [[ROW, ROW - 1]] * 2),
    # Nobody has seen a longer response.
    ({"length_distribution": "1~hist_10~3_40~1"}, [[136, 136, 128], [136, 136, 128]]),
], ids=str)  # fmt: skip
def test_verl_cuts_budgets_that_are_filled(changes: dict[str, Any], cut: list[list[int]]) -> None:
    plan = _case(**changes).plan
    assert [sorted(rows, reverse=True) for rows in _cut(plan)] == cut
    most = int(quantities(plan).micro_tokens)
    assert max(map(sum, cut)) == most - (most % ROW == 1) - (plan.batch_shape == "padded")


def test_rows_at_their_cap_would_leave_budgets_empty() -> None:
    """What verl makes of capped rows alone, for which no run has to be planned."""
    plan = _case().plan
    capped = plan.model_copy(update={"batch_shape": "full"})
    assert max(map(sum, _cut(capped))) == 2 * ROW < max(map(sum, _cut(plan))) == 400


@pytest.mark.parametrize("budget", [ROW, ROW + 1, ROW + 2, 2 * ROW])
def test_a_budget_of_one_row_is_filled_by_two(budget: int) -> None:
    """Which a mask keeps apart; a run's only sequence is alone in it."""
    plan = _case(max_tokens_per_micro_batch=budget).plan
    assert [len(rows) for rows in _cut(plan)] == [2, 2]
    assert {sum(rows) for rows in _cut(plan)} == {budget}
    single = {"prompts_per_step": 1, "responses_per_prompt": 2, "gpus": 2}
    assert _cut(_case(max_tokens_per_micro_batch=budget, **single).plan) == [[ROW]]


def _seen(method: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> set[tuple[str, int]]:
    """Which engine went forward for what, and with how many tokens."""
    seen: set[tuple[str, int]] = set()
    watch = Steps._watch

    def watched(steps: Any, own: Any, role: str) -> None:
        run = own.forward_step

        def forward_step(micro_batch: Any, **named: Any) -> Any:
            kind = "scoring" if named["forward_only"] else "training"
            seen.add((f"{role} {kind}", micro_batch["input_ids"].values().shape[0]))
            return run(micro_batch, **named)

        own.forward_step = forward_step
        watch(steps, own, role)

    monkeypatch.setattr(Steps, "_watch", watched)
    case = Case("seen", method, {**changes, **SMALL, **(ONE if method == "ppo" else {})}, CONFIG)
    step.execute(case.plan, case.configs)
    return seen


PASSES = [f"{role} {kind}" for role in ("policy", "critic") for kind in ("scoring", "training")]


@pytest.mark.parametrize(("method", "passes"), [("grpo", PASSES[:2]), ("ppo", PASSES)])
def test_every_engine_cuts_by_the_budget(
    method: str, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what hydra made of the export's overrides."""
    seen = _seen(method, monkeypatch, **{**BUDGET, "max_tokens_per_micro_batch": 40})
    assert seen == {(each, 40) for each in passes}


def test_a_critic_is_told_how_its_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl's trainer copies nothing but a budget to a critic's engine, which cuts by budgets."""
    export = made.overrides

    def untold(plan: Plan) -> dict[str, object]:
        told = export(plan).items()
        return {key: value for key, value in told if key != "+critic.fsdp.use_dynamic_bsz"}

    assert _seen("ppo", monkeypatch, **PACKED) == {(each, 32) for each in PASSES}
    monkeypatch.setattr(made, "overrides", untold)
    seen = dict(_seen("ppo", monkeypatch, **PACKED))
    assert (seen["critic scoring"], seen["critic training"], seen["policy training"]) == (
        64,
        64,
        32,
    )


SINGLE: dict[str, Any] = {
    **{"batch_shape": "padded", "attention": "sdpa", "max_tokens_per_micro_batch": 0},
    **{"micro_batch_size": 1, "gradient_checkpointing": "none"},
}
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"batch_shape": "padded"},
    {**SINGLE, "logprob_micro_batch_size": 1},
    {**SINGLE, "logprob_micro_batch_size": 2},
    {**SINGLE, "attention": "flash"},
    {**SINGLE, "max_tokens_per_micro_batch": 512 + 1024},
)


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_the_closed_form_is_what_verl_does(changes: dict[str, Any]) -> None:
    plan = Plan(
        method="grpo",
        framework="verl",
        model="Qwen/Qwen2.5-1.5B",
        gpus=8,
        prompts_per_step=128,
        prompt_tokens=512,
        response_tokens=1024,
        kl="loss",
        **{"batch_shape": "packed", "max_tokens_per_micro_batch": 8000, **changes},
    )
    meets_dry_run(plan, code=FRAMEWORK.name)


@pytest.mark.parametrize(("rows", "scored"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_a_padded_row_by_itself_has_no_mask(rows: int, scored: int) -> None:
    """verl pads to a micro-batch's own longest, and transformers makes no mask of ones alone."""
    sizes = {"micro_batch_size": rows, "logprob_micro_batch_size": scored}
    plan = Plan(method="grpo", framework="verl", **{**SINGLE, **sizes}, response_tokens=64)
    data = batch(plan, training=True)
    batches.tu.assign_non_tensor(data, use_dynamic_bsz=False, micro_batch_size_per_gpu=rows)
    (first, *_) = engine.prepare_micro_batches(data)[0]
    mask = build_attention_mask_from_nested(first["input_ids"])
    real = masking_utils._ignore_causal_mask_sdpa(mask, mask.shape[1], mask.shape[1], 0, 0)
    phases = {phase.name: phase.terms for phase in estimate(plan).phases}
    for name, one in (("policy forward", rows == 1), ("old log-probs", scored == 1)):
        assert any(term.name.startswith("attention mask") for term in phases[name]) != one
    assert real == (rows == 1)


def test_two_micro_batches_are_like_more(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case(prompts_per_step=8)

    def peaks(on: On) -> dict[str, int]:
        log = step.execute(case.plan, case.configs, on, "gpu")
        return {peak.phase: peak.total_bytes for peak in curve.peaks(log)}

    two = peaks("cpu")
    monkeypatch.setattr(batches, "ENOUGH", 4)
    four = peaks("cpu")
    # Log-probs, entropies and what a batch has of them: a few numbers a token.
    assert two.keys() == four.keys()
    assert all(0 <= four[phase] - two[phase] < 2 * 400 * 100 for phase in two)
