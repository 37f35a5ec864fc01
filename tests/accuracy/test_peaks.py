"""Peaks that others measured on real GPUs, beside the estimate of each row's plan."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from accuracy import verdicts
from accuracy.colocated import report as cards
from accuracy.colocated.runs import TRAINING
from accuracy.peaks import outside, replay
from accuracy.peaks.compare import Compared
from accuracy.peaks.mapping import results
from accuracy.peaks.rows import FILE, rows
from planner import catalog
from planner.units import GIB


def of(name: str) -> Compared:
    return next(item for item in results()[0] if item.row.id == f"fms-a100_80gb{name}")


def sizes(items: list[Compared], level: str) -> np.ndarray:
    return np.abs([item.error(level) for item in items if level in item.row.peaks])


def test_every_row_has_a_plan_or_one_reason() -> None:
    found, left = results()
    counted = Counter([item.row.id for item in found] + [row.id for row, _ in left])
    assert counted == Counter(row.id for row in rows())
    assert len(counted) == len(json.loads(FILE.read_text("utf-8"))["rows"]) == 630
    assert all(reason for _, reason in left)


def test_allocated_bytes_of_rows_of_high_confidence() -> None:
    ran = [item for item in results()[0] if item.row.outcome == "ran"]
    high = [item for item in ran if item.row.confidence == "high"]
    assert len(high) >= 60
    assert np.median(sizes(high, "allocated")) <= 0.03
    # Adapters under FSDP1 are 8 to 15 % too low, by what its hooks hold and no field says.
    assert np.percentile(sizes(high, "allocated"), 95) <= 0.14
    completed = [abs(item.completed_error("allocated")) for item in high]
    assert np.percentile(completed, 95) <= 0.03


def test_rows_that_a_plan_says_whole() -> None:
    whole = [item for item in results()[0] if item.row.outcome == "ran" and item.whole]
    assert len(whole) == 32
    assert np.percentile(sizes(whole, "allocated"), 95) <= 0.015
    errors = np.array([item.error("device") for item in whole])
    assert abs(np.median(errors)) <= 0.01
    assert np.percentile(abs(errors), 95) <= 0.12
    assert all(item.error("device") == item.completed_error("device") for item in whole)


def test_prepared_rows_without_autocast_have_no_logits_in_half_precision() -> None:
    """With them 2.9 and 4.4 % too high: the head is in fp32 and multiplies in that."""
    found = {size: of(name) for name, size in (("-056", 4), ("-058", 8))}
    for size, item in found.items():
        assert item.how.fields["micro_batch_size"] == size
        assert item.how.otherwise and not (item.how.exact or item.whole)
        assert abs(item.completed_error("allocated")) < 0.01
        assert item.instant == "policy backward: last layer's backward"


def test_adapters_under_autocast_have_plans() -> None:
    """Mistral with LoRA on two and four GPUs: what FSDP1's hooks hold explains all but 0.5 %."""
    found = [item for item in results()[0] if item.how.fields.get("autocast")]
    ran = [item for item in found if item.row.outcome == "ran"]
    assert len(ran) == 12
    assert all(0.002 < item.completed_error("allocated") < 0.006 for item in ran)
    ended = [item.verdict for item in found if item.row.outcome != "ran"]
    assert ended == ["out of memory"] * 17
    assert not [reason for _, reason in results()[1] if "autocast" in reason]


@pytest.mark.parametrize(
    ("name", "error"), [("-032", 0.001), ("-034", 0.001), ("-078", 0.002), ("-035", 0.007)]
)
def test_what_a_source_adds_explains_its_row(name: str, error: float) -> None:
    """Adapters' rows: without these terms they are 4 to 13 % too low."""
    item = of(name)
    assert abs(item.error("allocated")) > 0.04
    assert abs(item.completed_error("allocated")) < error


@pytest.mark.parametrize(
    ("name", "error"), [("mistral-7b", 0.011), ("llama-3-8b", 0.051), ("llama-2-7b", 0.065)]
)
def test_what_nodes_kept_of_4_bit_products_explains_litgpt(name: str, error: float) -> None:
    """Two graphs' inputs, whole: 25 to 30 % are missing without them."""
    rows = {item.row.id: item for item in results()[0]}
    item = rows[f"litgpt-{name}-qlora-1xA10G"]
    assert item.error("allocated") < -0.25
    assert abs(item.completed_error("allocated")) < error


@pytest.mark.parametrize(
    ("name", "measured"), [("_mp-012", 36.30), ("_mp-013", 25.87), ("_mp-014", 20.66)]
)
def test_gradients_that_wait_whole_are_in_the_estimate(name: str, measured: float) -> None:
    """Two, four and eight GPUs, two micro-batches: sharded gradients would be 7 to 53 % less."""
    item = of(name)
    assert item.row.peaks["allocated"] / GIB == pytest.approx(measured, abs=0.01)
    assert abs(item.error("allocated")) < 0.02


def test_what_ended_is_not_called_fits() -> None:
    ended = [item for item in results()[0] if item.row.outcome != "ran"]
    wrong = {item.row.id for item in ended if item.verdict == "fits"}
    assert len(ended) > 50
    assert not wrong


def test_no_row_is_above_its_upper_bound() -> None:
    """Eleven were, and two of a model that was planned later (4.3 GiB above it)."""
    ran = [item for item in results()[0] if "device" in item.row.peaks]
    assert not [item.row.id for item in ran if item.row.peaks["device"] > item.high_device]
    # Of the runs, how wide: at first a quarter at most, which was too narrow for one of Granite.
    assert np.median([item.high_device / item.estimated["device"] - 1 for item in ran]) <= 0.28


def test_device_bytes_of_rows_whose_settings_are_stated() -> None:
    """56 of A100s; twins of one plan differ by 9 % among themselves (68.6 to 75.5 GiB)."""
    exact = [item for item in results()[0] if item.stated]
    errors = np.array([item.error("device") for item in exact if "device" in item.row.peaks])
    assert len(errors) == 56
    assert abs(np.median(errors)) < 0.04
    assert np.percentile(abs(errors), 95) < 0.13


def test_layers_that_nobody_derived_meet_real_gpus() -> None:
    """Granite, measured on the spot: full and LoRA, one GPU and two, on A100s."""
    granite = [one for one in results()[0] if one.row.model == "ibm/PowerLM-3b"]
    assert len(granite) == 10
    assert sum("LoRA" in one.how.group for one in granite) == 4
    assert max(sizes(granite, "allocated")) < 0.015
    assert np.median(sizes(granite, "allocated")) < 0.005


def test_the_committed_layers_are_what_measuring_gives() -> None:
    """Of one of its models; the others are made by the same code."""
    import torch

    from planner.dryrun.run.spot import measure

    torch.set_num_threads(1)
    kept = json.loads(outside.FILE.read_text("utf-8"))["granite"]
    name = next(name for name in kept["settings"] if "lora" in name).rpartition("/")[0]
    found = json.loads(json.dumps(measure(kept["config"], [name])))
    assert found["settings"] == {key: kept["settings"][key] for key in found["settings"]}
    assert {**kept, "settings": found["settings"]} == {**found, "config": kept["config"]}


def test_the_replay_says_what_the_driver_saw() -> None:
    """Of rows whose plan says all that decides the peak: closer than the estimate's middle."""
    exact = [one for one in replay.judged(results()[0]) if one.how.exact]
    assert len(exact) == 21
    errors = np.array([replay.error(one) for one in exact])
    assert abs(np.median(errors)) < 0.01
    assert np.percentile(np.abs(errors), 95) < 0.06
    estimated = [abs(one.completed_error("device")) for one in exact]
    assert np.mean(np.abs(errors)) < 0.6 * np.mean(estimated)


def test_the_replay_stays_within_the_card() -> None:
    """Ten rows that ran were above an endless card's; two are, whose kernels no plan has."""
    rows = replay.judged(results()[0])
    cards = {one.row.id: catalog.gpu(str(one.how.fields["gpu"])) for one in rows}
    above = {
        one.row.id
        for one in rows
        if replay.entry(one)["bytes"]["device"] > cards[one.row.id].require_budget_bytes()
    }
    assert above == {"fms-a100_80gb_liger-000", "fms-a100_80gb_liger-004"}
    assert above == {one.row.id for one in rows if replay.entry(one)["out_of_memory"]}
    retried = {one.row.id: replay.error(one) for one in rows if replay.entry(one)["alloc_retries"]}
    assert len(retried) == 8
    assert max(map(abs, retried.values())) < 0.12


def test_a_row_of_another_plan_has_no_replay() -> None:
    item = of("_granite-000")
    assert replay.entry(item)
    other = replace(item.how, fields={**item.how.fields, "micro_batch_size": 3})
    assert not replay.entry(replace(item, how=other))


def test_no_whole_card_is_above_its_upper_bound() -> None:
    found = cards.found()
    assert not [item.row.words for item in found if item.row.device_peak_bytes > item.high]
    assert np.median([item.high / item.cold - 1 for item in found]) <= 0.2


def test_no_published_outcome_is_a_false_fits() -> None:
    judged = verdicts.judged()
    assert sum(one.outcome == "out of memory" and one.verdict is not None for one in judged) == 3
    assert not [one.id for one in judged if one.false_fits]


def test_whole_cards_with_their_baseline() -> None:
    training = [item for item in cards.found() if item.row.phase == TRAINING]
    assert len(cards.found()) == 78 and len(training) == 39
    given = [item.error(item.given or 0) for item in training]
    completed = [item.error(item.completed or 0) for item in training]
    assert np.mean(np.abs(given)) <= 0.06
    assert np.mean(np.abs(completed)) <= 0.04
