"""A verdict is a list of limits: which, in what order, and how long its headline may be."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings

from planner.answer import to_json
from planner.cli.answer import headed
from planner.estimate import estimate, judged
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.presets import presets
from planner.report import content_of, html_of
from planner.sweeps.table import sweep
from planner.totals import limits
from planner.totals.limits import CARDS, HOST, LOADING, MOST_WORDS, SEVERITY, START, word_of
from planner.trial.ask.footprints import figures_of
from planner.units import GIB, read_gib
from random_plans import plans

GRPO = presets()["grpo-7b@1"].plan
FROZEN = {"framework": "plain", "reference": "adapter-disabled", "finetuning": "lora"}


def named(footprint: Footprint) -> dict[str, limits.Limit]:
    found = {one.name: one for one in footprint.verdict.limits}
    assert len(found) == len(footprint.verdict.limits)
    return found


@given(plans())
@settings(max_examples=120, deadline=None)
def test_every_plan_has_its_limits_and_a_short_headline(plan: Plan) -> None:
    found = estimate(plan)
    verdict, by_name = found.verdict, named(found)
    assert len(verdict.sentence.split()) <= MOST_WORDS, verdict.sentence
    assert verdict.sentence.endswith(".") and "\n" not in verdict.sentence
    ranks = [SEVERITY.index(one.word) for one in verdict.limits]
    assert ranks == sorted(ranks), "the worst first"
    assert verdict.word == verdict.limits[0].word or (found.blockers and ranks[0])
    assert (HOST in by_name) == bool(plan.host_ram_per_node)
    assert (START in by_name) == plan.rollout.startswith("vllm")
    cards = [one for one in verdict.limits if one.name in CARDS]
    assert len(cards) == len({phase.rank for phase in found.phases})
    assert max(one.bytes for one in cards) == found.device_bytes
    for one in verdict.limits:
        assert one.bytes <= one.high_bytes or one.name in CARDS or one.name == LOADING
        if one.name != START:
            assert one.word == word_of(one.bytes, one.high_bytes, one.budget_bytes)
    first = verdict.limits[0]
    if not found.blockers and first.word == "tight" and first.high_bytes > first.budget_bytes:
        # A range that reaches beyond the card stands in the headline, with its end.
        assert verdict.sentence.startswith("Tight, may not fit. ")
        assert f"upper bound {read_gib(first.high_bytes)} GiB" in verdict.sentence
    else:
        assert "may not fit" not in verdict.sentence
    # Every limit and every fault is said once, in the headline or below it.
    said = [verdict.sentence, *verdict.lines]
    assert len(said) == len({*said})
    left = [one for one in verdict.limits if one.sentence not in verdict.lines]
    assert len(left) <= 1 and all(one is verdict.limits[0] for one in left)
    for why in found.blockers:
        assert f"{why[0].upper()}{why[1:]}" in verdict.lines
    assert judged(found).verdict == verdict


@pytest.mark.parametrize(
    ("changes", "first", "word", "sentence"),
    [
        ({}, "GPU", "fits", "Fits. Peak 52.2 of 79.1 GiB, during rollout."),
        ({"gradient_checkpointing": "none"}, "GPU", "out of memory", "Out of memory. Peak "),
        ({"gpu_memory_utilization": 0.1}, START, "out of memory", "Does not start. vLLM "),
        ({"host_ram_per_node": 16 * GIB}, HOST, "out of memory", "Out of memory. A node's host "),
        (
            {"host_ram_per_node": 39 * GIB},
            HOST,
            "tight",
            "Tight, may not fit. A node's host RAM: 38.0 of ",
        ),
        ({"host_ram_per_node": 512 * GIB}, "GPU", "fits", "Fits. Peak "),
    ],
)
def test_the_headline_is_the_worst_limit(
    changes: dict[str, Any], first: str, word: str, sentence: str
) -> None:
    verdict = estimate(GRPO.changed(**changes)).verdict
    assert (verdict.limits[0].name, verdict.word) == (first, word)
    assert verdict.sentence.startswith(sentence)


def test_the_pools_of_two_kinds_of_gpus_are_two_limits() -> None:
    found = estimate(GRPO.changed(rollout="vllm-separate", rollout_gpus=4))
    by_name = named(found)
    assert {"training GPU", "rollout GPU", START} <= by_name.keys() and "GPU" not in by_name
    assert "of each of its own GPUs" in by_name[START].sentence
    assert found.verdict.sentence.startswith("Fits. ") and "GPU: peak" in found.verdict.sentence


def test_loading_is_a_limit_of_its_own_where_it_does_not_make_the_peak() -> None:
    found = estimate(GRPO)
    load = next(phase for phase in found.phases if phase.name == "load")
    assert named(found)[LOADING].bytes == load.device_bytes
    ppo = estimate(presets()["ppo-7b@1"].plan)
    assert ppo.worst.name == "load" and LOADING not in named(ppo)


def test_a_fault_stands_in_the_headline_by_its_first_clause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = import_module("planner.cautions.blockers")
    monkeypatch.setattr(module, "loses_gradients", lambda scene: True)
    found = estimate(GRPO)
    assert found.verdict.word == "out of memory" and len(found.blockers) == 1
    assert found.verdict.sentence == "Does not run. Adapters get no gradients."
    assert found.verdict.lines[-1].endswith("turn reshard_after_forward on.")
    assert any(line.startswith("GPU: fits, 52.2 of ") for line in found.verdict.lines)
    long = limits.verdict_of(found.verdict.limits, ["word " * 40], found.phases)
    assert len(long.sentence.split()) == MOST_WORDS


@pytest.mark.parametrize("ram", [30, 38, 39, 41, 45, 60])
def test_a_sweep_judges_host_ram_as_an_estimate_does(ram: int) -> None:
    plan = GRPO.changed(host_ram_per_node=ram * GIB)
    words = [estimate(plan.changed(response_tokens=n)).verdict.word for n in (256, 2048)]
    table = sweep(plan, over={"response_tokens": [256, 2048]})
    assert [*table["verdict"].astype(str)] == words
    other = sweep(GRPO, over={"host_ram_per_node": [ram * GIB], "response_tokens": [256, 2048]})
    assert [*other["verdict"].astype(str)] == words


def test_page_of_text_json_and_report_show_one_list() -> None:
    found = replace(estimate(GRPO.changed(host_ram_per_node=64 * GIB)), assumptions=("A is B",))
    about, assumed, sentence, *lines = headed(found)
    assert about.startswith("8 × H100") and assumed == "A is B."
    assert sentence == found.verdict.sentence
    assert [line.strip() for line in lines] == [*found.verdict.lines]
    answer = to_json(found)
    assert answer["verdict"]["lines"] == [*found.verdict.lines]
    assert [one["sentence"] for one in answer["limits"]] == [
        one.sentence for one in found.verdict.limits
    ]
    assert answer["assumptions"] == ["A is B"]
    kept = figures_of(found)
    assert [one.name for one in kept.limits] == [*named(found)] and kept.assumptions == ("A is B",)
    page = html_of(content_of(found, made=dt.date(2026, 11, 28)))
    assert page.index("A is B.") < page.index(sentence) < page.index("Loading: fits")
