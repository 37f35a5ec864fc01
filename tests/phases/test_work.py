"""The table of work, against operations counted by hand for one sequence of Qwen2.5-0.5B.

512 prompt and 512 response tokens. Layers: 24 of width 896, 14 heads of 64, 2 key/value heads, MLP
4,864; vocabulary 151,936. Two operations a weight and position; scores and values of the pairs
that a causal row sees.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks_of_cards import H100
from planner import catalog
from planner.catalog.efficiencies import typical
from planner.estimate import estimate, phase_plans
from planner.phases.phase import Work
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.speeds import Speeds
from planner.trial.run.cadence import step_flops

ROW, RESPONSE = 1024, 512
LINEAR = 24 * (896 * (896 + 2 * 128) + 896 * 896 + 3 * 896 * 4864)
BODY = 2 * LINEAR * ROW + 24 * 4 * 896 * (ROW * (ROW + 1) / 2)
"""One forward of the layers: products, then scores and values."""
ATTENTION_BACK = 2.5 * 24 * 4 * 896 * (ROW * (ROW + 1) / 2)
BODY_BACK = 2 * 2 * LINEAR * ROW + ATTENTION_BACK
HEAD_POSITION = 2 * 896 * 151_936
ALL, SOME = ROW * HEAD_POSITION, (RESPONSE + 1) * HEAD_POSITION


def plan(method: str, **changes: Any) -> Plan:
    usual: dict[str, Any] = {"responses_per_prompt": 2, "prompts_per_step": 1, "rollout": "hf"}
    if method == "sft":
        usual = {"prompts_per_step": 2}
    return Plan(
        model="Qwen/Qwen2.5-0.5B",
        method=method,
        gpus=1,
        prompt_tokens=ROW - RESPONSE,
        response_tokens=RESPONSE,
        **{**usual, "gradient_checkpointing": "none", "batch_shape": "full", **changes},
    )


def rows(asked: Plan) -> dict[str, tuple[Work, ...]]:
    return {one.name: one.work for one in phase_plans(scene_of(asked, facts_of(asked)))}


@pytest.mark.parametrize(
    ("method", "logits", "head", "again"),
    [
        ("sft", "full", ALL, 0),
        ("grpo", "full", ALL, 0),
        ("grpo", "response", SOME, 0),
        ("grpo", "chunked", SOME, 1),
        ("grpo", "fused", SOME, 1),
    ],
)
@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_operations_are_those_counted_by_hand(
    method: str, logits: str, head: float, again: int, checkpointing: str
) -> None:
    asked = plan(method, logits=logits, gradient_checkpointing=checkpointing)
    found = rows(asked)
    (forward,), (backward,) = found["policy forward"], found["policy backward"]
    sequences = 2
    assert forward.flops == pytest.approx(sequences * (BODY + head), rel=2e-3)
    repeated = BODY if checkpointing == "full" else 0
    by_hand = sequences * (BODY_BACK + repeated + (2 + again) * head)
    assert backward.flops == pytest.approx(by_hand, rel=2e-3)
    # The trial counts the same rows.
    assert step_flops(asked, "policy forward") == forward.flops
    assert step_flops(asked, "policy backward") == backward.flops


@pytest.mark.parametrize("how", ["full", "chunked-tokens", "chunked-vocabulary"])
@pytest.mark.parametrize(("logits", "head"), [("full", ALL), ("response", SOME), ("fused", SOME)])
def test_self_certainty_meets_the_head_once_more(how: str, logits: str, head: float) -> None:
    """Each form makes logits of its own beside those of the log-probs."""
    certain = plan("intuitor", logits=logits, self_certainty=how)
    found, group = rows(certain), rows(plan("grpo", logits=logits, kl="loss"))
    old = sum(row.flops for row in found["old log-probs"])
    assert old == pytest.approx(2 * (BODY + 2 * head), rel=2e-3)
    assert step_flops(certain, "old log-probs") == old
    for phase in ("reference log-probs", "policy forward", "policy backward"):
        assert found[phase] == group[phase]


@pytest.mark.parametrize("how", ["full", "chunked-tokens", "chunked-vocabulary"])
def test_the_premise_takes_the_heads_second_pass_forward_and_back(how: str) -> None:
    """Slices of the vocabulary are made again on the way back; kept logits are not."""
    usual, premise = (
        rows(plan("intuitor", logits="full", self_certainty=how, self_certainty_gradient=on))
        for on in (False, True)
    )
    more = {
        name: sum(row.flops for row in premise[name]) - sum(row.flops for row in usual[name])
        for name in ("policy forward", "policy backward")
    }
    again = how == "chunked-vocabulary"
    assert more["policy forward"] == pytest.approx(2 * ALL)
    assert more["policy backward"] == pytest.approx(2 * (2 + again) * ALL)


def test_the_second_head_pass_takes_its_time() -> None:
    """At the share of the peak that a forward without gradient was measured to reach."""
    phases = {}
    for method in ("intuitor", "grpo"):
        found = estimate(plan(method, logits="full"), H100).phases
        phases[method] = next(phase for phase in found if phase.name == "old log-probs")
    rate = catalog.gpu(plan("grpo").gpu).flops_per_second("bf16") * 0.29
    computed = {
        method: sum(term.seconds for term in phase.times if term.name == "computation")
        for method, phase in phases.items()
    }
    assert computed["intuitor"] - computed["grpo"] == pytest.approx(2 * ALL / rate)


def test_the_second_head_pass_is_products_and_the_losses_bytes() -> None:
    """Without a benchmark: twice the head's products, and what is read and written of logits."""
    names = {}
    for method in ("intuitor", "grpo"):
        found = estimate(plan(method, logits="full")).phases
        old = next(phase for phase in found if phase.name == "old log-probs")
        names[method] = [term.name for term in old.times]
    for name in ("LM head GEMMs", "loss over the vocabulary"):
        assert names["intuitor"].count(name) == 2 * names["grpo"].count(name) == 2


def test_adapters_leave_the_gradient_of_weights_out() -> None:
    (backward,) = rows(plan("grpo", finetuning="lora", logits="response"))["policy backward"]
    by_hand = 2 * (2 * LINEAR * ROW + ATTENTION_BACK + SOME)
    assert backward.flops == pytest.approx(by_hand, rel=2e-3)


def test_packed_rows_score_their_share_of_response_tokens() -> None:
    asked = plan("grpo", batch_shape="packed", logits="response", attention="sdpa")
    (forward,) = rows(asked)["policy forward"]
    assert forward.scored_tokens == 2 * RESPONSE


@pytest.mark.parametrize("phase", ["load", "checkpoint", "validation"])
def test_phases_whose_time_nobody_can_derive_have_no_rows(phase: str) -> None:
    assert rows(plan("grpo"))[phase] == ()


PROMPT, SOFT = 32, 64
"""Document 001's row."""
PREFIXES = range(PROMPT, PROMPT + SOFT)


def grade(**changes: Any) -> Plan:
    usual: dict[str, Any] = {"finetuning": "lora", "reference": "copy", "grade_kl": "online"}
    usual |= {"prompts_per_step": 1, "prompts_per_update": 1, "responses_per_prompt": 1}
    usual |= {"rollout": "in-graph", "reward": "model", "reward_model": "", "kl": "none"}
    usual |= {"sharding": "none", "attention": "eager", "batch_shape": "full"}
    usual |= {"prompt_tokens": PROMPT, "response_tokens": SOFT}
    values = {"model": "Qwen/Qwen2.5-0.5B", "method": "grade", "gpus": 1}
    return Plan(**{**values, **usual, **changes})


def products(tokens: int, pairs: float, scored: int) -> float:
    return 2 * LINEAR * tokens + 24 * 4 * 896 * pairs + scored * HEAD_POSITION


def reference_row(asked: Plan) -> Work:
    return rows(asked)["policy forward"][1]


def seconds(asked: Plan, speeds: Speeds | None = None) -> dict[str, float | None]:
    return {phase.name: phase.seconds for phase in estimate(asked, speeds).phases}


@pytest.mark.parametrize("sequences", [1, 3])
def test_a_reference_cache_leaves_96_of_4064_positions(sequences: int) -> None:
    """Without one every prefix runs whole; with one each token runs once, and the last never."""
    many = {"prompts_per_step": sequences, "prompts_per_update": sequences}
    whole = reference_row(grade(**many))
    assert (whole.run, whole.tokens) == ("score", sequences * 4064)
    pairs = sum(each * (each + 1) / 2 for each in PREFIXES)
    by_hand = products(sum(PREFIXES), pairs, SOFT)
    assert whole.flops == pytest.approx(sequences * by_hand, rel=1e-3)
    cached = reference_row(grade(**many, grade_reference_cache=True))
    by_hand = products(95, 95 * 96 / 2, SOFT)
    assert cached.tokens == sequences * 95
    assert cached.flops == pytest.approx(sequences * by_hand, rel=1e-3)


def test_a_reference_without_gradient_takes_a_forwards_share_of_the_peak() -> None:
    """Rows so long that products, not launches, take the time."""
    size = {"prompt_tokens": 512, "response_tokens": 512}
    size |= {"prompts_per_step": 64, "prompts_per_update": 64, "micro_batch_size": 64}
    prefixes = range(512, 1024)
    pairs = sum(each * (each + 1) / 2 for each in prefixes)
    flops = 64 * products(sum(prefixes), pairs, 512)
    measured = replace(H100, speeds=H100.speeds[1:2])
    without = seconds(grade(**size, grade_kl="none", reference="none"), measured)["policy forward"]
    whole = seconds(grade(**size), measured)["policy forward"]
    card = catalog.gpu(grade().gpu)
    rate = card.flops_per_second("bf16") * 0.29
    assert whole - without == pytest.approx(flops / rate, rel=1e-3)
    cached = seconds(grade(**size, grade_reference_cache=True), measured)["policy forward"]
    floor = 512 * 24 * typical("hf-step-seconds-per-layer", card) * 48 / 40
    assert floor < cached - without < 1.1 * floor < (whole - without) / 2


@pytest.mark.parametrize("cached", [False, True])
def test_a_short_row_waits_for_its_launches(cached: bool) -> None:
    """Every token launches 24 layers; their products hide behind that, cached or not.

    The head's come after them. Eager attention launches eight kernels more than a layer's forty:
    six more of its own, and copies of queries and of its output.
    """
    without = seconds(grade(grade_kl="none", reference="none"))["policy forward"]
    found = seconds(grade(grade_reference_cache=cached))["policy forward"]
    card = catalog.gpu(grade().gpu)
    floor = SOFT * 24 * typical("hf-step-seconds-per-layer", card) * 48 / 40
    assert found - without == pytest.approx(floor, rel=2e-2 if cached else 1e-2)
