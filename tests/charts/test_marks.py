"""What charts share: the ink of their words."""

from __future__ import annotations

import altair as alt
import pandas as pd
import pytest

from planner.charts import marks


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_axes_and_legends_are_in_the_ink_and_not_in_the_themes_grey(mode: str) -> None:
    ink = marks.INK[mode]
    layer = alt.Chart(pd.DataFrame({"a": [1]})).mark_bar().encode(x="a:Q")
    config = marks.finished([layer], ink).to_dict()["config"]
    for part in ("axis", "legend"):
        assert config[part] == {"labelColor": ink, "titleColor": ink}
