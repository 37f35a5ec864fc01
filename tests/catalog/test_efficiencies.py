"""Every efficiency states its range, and its published figures lie within reach of it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from planner import catalog
from planner.catalog.efficiencies import Efficiency, Interval, date_read, efficiencies, typical


@pytest.mark.parametrize("row", efficiencies().values(), ids=lambda row: row.key)
def test_the_ends_of_every_interval_are_published_or_explained(row):
    values = [value for published in row.published for value in published.value]
    low = min(span.low for span in row.intervals.values())
    high = max(span.high for span in row.intervals.values())
    outside = [value for value in values if not 0.9 * low <= value <= 1.1 * high]
    assert not outside
    reached = any(abs(value / low - 1) < 0.1 for value in values)
    assert reached or "by hand" in row.note or "assumption" in row.note
    assert any(abs(value / high - 1) < 0.1 for value in values)


def test_the_date_is_a_day():
    assert len(date_read().split("-")) == 3


def test_a_card_has_its_own_interval_or_that_of_any():
    hopper, ampere, ada = (catalog.gpu(key) for key in ("h100-80gb", "a100-80gb", "l4"))
    assert typical("training-compute", hopper) != typical("training-compute", ampere)
    assert typical("training-compute", ada) == typical("training-compute", None)


def test_seconds_and_shares_move_the_time_in_opposite_directions():
    span = {"any": Interval(low=1, typical=2, high=8)}
    published = ({"figure": "x", "value": (1,), "source": "x"},)
    row = {"key": "link-bandwidth", "what": "x", "intervals": span, "published": published}
    share = Efficiency(**row, unit="share of x", note="")
    fixed = Efficiency(**row, unit="seconds per x", note="")
    assert share.spread() == (0.25, 2)
    assert fixed.spread() == (0.5, 4)


def test_a_disordered_interval_is_refused():
    with pytest.raises(ValidationError, match="low <= typical <= high"):
        Interval(low=2, typical=1, high=3)
