"""The gauge: one value from which verdict, gauge and figures say what the peak takes."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from planner.ui import gauge, verdict
from ui.opened_pages import opened, words


def drawn(**query: str) -> str:
    return html_of(opened(**query))


def html_of(app: AppTest) -> str:
    bodies = [str(one.proto.body) for one in app.get("html")]
    [found] = [body for body in bodies if body.startswith('<div class="gauge')]
    return found


def test_the_gauge_is_filled_as_far_as_the_peak_and_says_so() -> None:
    html = drawn()
    used, total = map(float, re.findall(r"<b>([\d.]+)</b> of ([\d.]+) GiB", html)[0])
    [width] = re.findall(r'class="used" style="width:([\d.]+)%', html)
    assert float(width) == pytest.approx(100 * used / total, abs=0.2)
    assert f'aria-valuetext="{used} of {total} GiB"' in html and 'class="gauge fits"' in html


def test_a_peak_beyond_the_gpu_shows_where_the_gpu_ends() -> None:
    html = drawn(v="1", preset="grpo-7b@1", response_tokens="65536")
    [card] = re.findall(r'class="card" style="left:([\d.]+)%', html)
    assert float(card) < 100 and 'class="gauge out-of-memory"' in html
    now, most = (re.findall(rf'aria-value{end}="([\d.]+)"', html)[0] for end in ("now", "max"))
    assert float(now) <= float(most), "a meter is never beyond its end"


def test_verdict_gauge_and_figure_have_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    own = gauge.used_of
    sentence = "Tight. Peak 77.0 of 79.1 GiB, during rollout."

    def other(footprint: object) -> gauge.Used:
        found = own(footprint)  # type: ignore[arg-type]
        return found._replace(device_bytes=77 * 2**30, word="tight", sentence=sentence)

    monkeypatch.setattr(verdict, "used_of", other)
    monkeypatch.setattr("planner.ui.plan.answer.used_of", other)
    app = opened()
    assert sentence in app.warning[0].value and app.metric[0].value == "77.0 GiB"
    assert "**77.0** of 79.1 GiB" in words(app)
    html = html_of(app)
    assert "<b>77.0</b> of 79.1 GiB" in html and 'class="gauge tight"' in html
