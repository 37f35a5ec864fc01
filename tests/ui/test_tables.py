"""Tables and words of the pages: units, CSV, borders, formulas with numbers in them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pandas as pd
import pytest

from planner.estimate import estimate
from planner.footprint import StatedError
from planner.plan import FIELDS, Plan
from planner.plan.methods import methods
from planner.plan.plan import ROWS
from planner.plan.presets import presets
from planner.ui import tables
from planner.ui.elements import decimals
from planner.ui.inputs.groups import GROUPS, SECTIONS
from planner.ui.messages import plain
from planner.ui.scaling.axes import AXES, border, family, relatives
from planner.wording.display import UNITS, interval, put_in
from planner.wording.fields import help_text

FOOTPRINT = estimate(presets()["grpo-7b@1"].plan)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_a_csv_cell_is_never_a_formula(start: str) -> None:
    text = tables.as_csv(pd.DataFrame({f"{start}head": [f"{start}cmd|' /C calc'!A0", -1.5, None]}))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][0][0] == "'"
    assert rows[1][0][0] == "'"
    assert [row[0] if row else "" for row in rows[2:]] == ["-1.5", ""]


def test_bars_add_up_to_their_phase() -> None:
    parts = tables.bar_parts(FOOTPRINT, UNITS["GiB"])
    for phase in FOOTPRINT.phases:
        own = [part for part in parts if part.phase == phase.name]
        assert sum(part.memory for part in own) == pytest.approx(phase.device_bytes / 2**30)
        pool = sum(part.memory for part in own if part.chosen)
        assert pool == pytest.approx(phase.pool_bytes / 2**30)
    assert any(part.chosen for part in parts) and not all(part.chosen for part in parts)


def test_the_table_has_every_phase_with_its_four_totals() -> None:
    table = tables.phase_table(FOOTPRINT, UNITS["GB"])
    assert len(table) == len(FOOTPRINT.phases)
    first = table.iloc[0]
    assert first["Device, GB"] >= first["Reserved, GB"] >= first["Allocated, GB"]
    assert first["Allocated, GB"] >= first["Requested, GB"]
    timed = table.dropna(subset=["Seconds"])
    assert len(timed) and (timed["At least"] <= timed["Seconds"]).all()
    assert (timed["Seconds"] <= timed["At most"]).all()


def test_units_name_what_they_count() -> None:
    assert UNITS["GiB"].read(2**30 * 61.25) == "61.2 GiB"
    assert UNITS["GB"].read(84_943_110_000) == "84.9 GB"
    assert UNITS["GiB"].read(2**20 * 3) == "3 MiB"
    assert UNITS["GiB"].read(None) == "not known"


def test_an_unmeasured_error_is_not_a_number() -> None:
    assert interval(None, None) == "not measured"
    assert interval(-0.07, 0.123) == "−7.0% to +12.3%"


def test_a_measured_error_or_the_bounds_are_in_the_table_and_on_the_bars() -> None:
    first, *others = FOOTPRINT.phases
    error = StatedError(low=-0.2, high=0.25, source="two trials")
    known = replace(FOOTPRINT, phases=(replace(first, error=error), *others))
    table = tables.phase_table(known, UNITS["GiB"])
    assert list(table["Error"])[:2] == ["−20.0% to +25.0%", "not measured"]
    measured, *rest = tables.bar_peaks(known, UNITS["GiB"])
    size = first.device_bytes / 2**30
    assert (measured.least, measured.most) == pytest.approx((size / 1.25, size / 0.8))
    # No device is known to the byte: what nobody measured has the bounds of its terms.
    for peak, phase in zip(rest, others, strict=True):
        spread = phase.low_bytes / 2**30, phase.high_bytes / 2**30
        assert (peak.least, peak.most) == pytest.approx(spread)
        assert spread[0] < phase.device_bytes / 2**30 < spread[1]


def test_a_phase_that_measured_more_than_the_card_is_tight() -> None:
    phase, budget = FOOTPRINT.phases[0], FOOTPRINT.budget_bytes
    assert tables.phase_word(phase, budget) == "fits"
    low = phase.device_bytes / (budget * 1.01) - 1
    wrong = replace(phase, error=StatedError(low=low, high=0.0, source="a trial"))
    assert tables.phase_word(wrong, budget) == "tight"


def test_formulas_show_their_numbers() -> None:
    put = put_in("ceil_div(parameters, shards) * value_bytes", {"parameters": 7000, "shards": 8})
    assert put == "ceil_div(7,000, 8) * value_bytes"


def verdicts(*words: str) -> pd.DataFrame:
    return pd.DataFrame(
        {"gpus": [2**n for n in range(len(words))], "verdict": words, "valid": True}
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fits", "tight", "out of memory"), "Most GPUs it runs on: **2 GPUs**."),
        (("out of memory", "fits"), "Needs at least **2 GPUs**."),
        (("fits", "fits"), "Runs at every valid value from 1 to 2 GPUs."),
        (("out of memory",) * 2, "Runs at no value from 1 to 2 GPUs."),
        (("out of memory", "fits", "out of memory"), "Runs from **2** to **2 GPUs**."),
    ],
)
def test_the_border_is_said_in_words(words: tuple[str, ...], said: str) -> None:
    assert border(verdicts(*words), "gpus", "GPUs") == said


def test_a_columns_figures_have_equal_decimals_three_digits_of_the_least() -> None:
    assert decimals([9.328, 13.49, None]) == "%,.2f"
    assert decimals([36.22, 1200.0]) == "%,.1f"
    assert decimals([439.0, float("nan")]) == "%,.0f"
    assert decimals([0.0, 0.0312]) == "%,.4f"
    assert decimals([]) == "%,.0f"


def test_impossible_plans_do_not_count_as_running() -> None:
    rows = verdicts("fits", "fits", "out of memory").assign(valid=[True, False, True])
    assert border(rows, "gpus", "GPUs") == "Most GPUs it runs on: **1 GPU**."


def test_an_axis_always_holds_the_plans_own_value() -> None:
    values = AXES["response_tokens"].values([Plan(response_tokens=3000)], 128, 8192)
    assert 3000 in values and values == sorted(values)


def test_relatives_are_sizes_of_one_family() -> None:
    assert family("Qwen/Qwen2.5-1.5B") == family("Qwen/Qwen2.5-72B") == "Qwen/Qwen2.5"
    found = relatives("Qwen/Qwen3-8B")
    assert "Qwen/Qwen3-0.6B" in found and "Qwen/Qwen2.5-7B" not in found
    assert len(relatives("openai-community/gpt2")) >= 3


KINDS_OF_SPLITS = ("tensor", "pipeline", "context", "expert")


def test_every_field_is_shown_somewhere_or_said_why_not() -> None:
    # The model comes first, above the sections.
    main = ["model", *(name for section in SECTIONS for row in section.inputs for name in row)]
    grouped = [name for group in GROUPS for name in group.fields]
    by_other_inputs = ("config", "gpu_bytes", "length_distribution")
    one_value_so_far = (*(f"{kind}_parallel" for kind in KINDS_OF_SPLITS), "turns")
    assert sorted([*main, *grouped, *by_other_inputs, *one_value_so_far]) == sorted(FIELDS)
    own = {name for method in methods().values() for name in method.own_fields}
    placed = {name for name, row in ROWS.items() if row.page[0]}
    assert own and placed | own == {*main, *grouped} and not own & placed
    assert len(main) == 11


def test_help_names_the_links_key() -> None:
    assert all(f"`{name}`" in help_text(name) for name in ROWS)


def test_text_from_a_link_stays_text() -> None:
    assert plain("[a](http://b) <b> `c` **d**") == (
        "\\[a\\](http\\://b) \\<b\\> \\`c\\` \\*\\*d\\*\\*"
    )
