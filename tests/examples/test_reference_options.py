"""The reference's options side by side: rows are estimates, option 2 is what it would keep."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd
import pytest

from planner.charts.options import option_bars
from planner.estimate import estimate
from planner.examples import reference_options as options
from planner.plan import Plan
from planner.plan.presets import presets

PLAN = presets()["doc-004-activations@1"].plan


def rows_of(plan: Plan) -> dict[tuple[str, str], options.OptionRow]:
    return {(row.measure, row.option): row for row in options.reference_options(plan)}


def test_every_value_of_the_field_is_a_row_of_every_measure() -> None:
    found = rows_of(PLAN)
    names = [*options.OPTIONS.values(), "Option 2 as claimed", "Option 2 as it is"]
    assert list(found) == [(measure, name) for measure in options.MEASURES for name in names]
    values = Plan.model_json_schema()["properties"]["reference"]["enum"]
    assert {*options.OPTIONS} == {*values} - {"none"}
    for value, name in options.OPTIONS.items():
        planned = estimate(PLAN.changed(reference=value))
        assert found[options.GPU, name].value == planned.device_bytes
        assert found[options.HOST, name].value == planned.host_bytes
    copy = estimate(PLAN)
    (scored,) = [phase.seconds for phase in copy.phases if phase.name == "reference log-probs"]
    assert found[options.STEP, "Copy"].value == scored
    # A pass of its own and one inside the policy's forward are the same operations.
    assert found[options.STEP, "Dual output"].value == pytest.approx(scored)


def test_sampled_responses_leave_nothing_on_a_disk_and_given_ones_do() -> None:
    sampled, given = rows_of(PLAN), rows_of(Plan(method="dpo", finetuning="lora"))
    for name in ("Cached log-probs", "Cached hidden states"):
        assert sampled[options.DISK, name].text == sampled[options.BEFORE, name].text == "none"
        # Qwen2.5-Coder-3B's 3.09 billion weights, in bf16.
        assert sampled[options.OTHERS, name].value == pytest.approx(2 * 3.086e9, rel=1e-3)
        assert given[options.OTHERS, name].text == "none"
        assert (given[options.DISK, name].value or 0) > 0
        assert (given[options.BEFORE, name].value or 0) > 60
    # 64 pairs' sums, 4 bytes each, from an assumed disk of 1,000 MiB/s.
    read = given[options.STEP, "Cached log-probs"]
    assert read.value == pytest.approx(128 * 4 / 1_048_576_000)
    assert read.text == "under a millisecond"
    assert ("GPU peak", "Option 2 as claimed") not in given, "the document speaks of its own batch"


def test_option_2_is_added_as_claimed_and_as_it_is() -> None:
    found = rows_of(PLAN)
    basis = found[options.GPU, "Adapters disabled"].value
    claimed, real = (found[options.GPU, f"Option 2 as {word}"] for word in ("claimed", "it is"))
    assert basis is not None and claimed.value is not None and real.value is not None
    assert claimed.value - basis == 2.4e9
    assert real.value - basis > 2 * 2.4e9
    for measure in options.MEASURES[1:]:
        assert found[measure, "Option 2 as claimed"].text == "not said"
    spared = found[options.STEP, "Option 2 as it is"].value
    assert spared == found[options.STEP, "Adapters disabled"].value, "the pass is still made"


def test_what_a_pass_keeps_is_what_autograds_hooks_counted() -> None:
    """Qwen3-4B in bf16, eager: 182,440 + 192 n bytes a layer and token, 36 layers."""
    rows, tokens = 2, 512
    layers = rows * tokens * 36 * (182_440 + 192 * tokens)
    logits = rows * tokens * 151_936 * 2
    found = options.kept_of_a_pass_bytes(PLAN.changed(model="Qwen/Qwen3-4B"))
    # Above the layers come hidden states, a final norm and rotary tables: a few rows of 2,560.
    assert 0 < found - layers - logits < 12 * rows * tokens * 2560
    assert found == pytest.approx(layers + logits, rel=0.005)


def test_the_chart_has_a_bar_for_what_has_a_size_and_words_for_the_rest() -> None:
    table = pd.DataFrame(map(asdict, options.reference_options(PLAN)))
    chart = option_bars(table).to_dict()
    drawn = [row for data in chart["datasets"].values() for row in data]
    heads = {row["head"] for row in drawn if row["head"]}
    assert heads == {
        options.GPU, options.OTHERS, options.HOST, options.STEP,
        f"{options.DISK}: none", f"{options.BEFORE}: none",
    }  # fmt: skip
    bars = [row for row in drawn if row.get("measure") == options.GPU and not row["head"]]
    assert len({row["option"] for row in bars}) == 9
    assert max(row["share"] for row in bars) == 1
    assert chart["width"] == "container"
