"""A link with correction factors: they stay in it, are said with their effect, and come off."""

from __future__ import annotations

from planner.estimate import estimate
from planner.plan.factors import Factor, Factors, factors_to_text
from planner.plan.presets import presets
from ui.opened_pages import opened, words

PLAN = presets()["grpo-7b@1"].plan
WORST = estimate(PLAN).worst.name


def link(**changes: str) -> str:
    values = {"gpu": PLAN.gpu, "method": "grpo", "torch": PLAN.torch_version, **changes}
    factors = (Factor("estimate", WORST, "device", 2.0, 4),)
    return factors_to_text(Factors(**values, transformers="", factors=factors))


def test_factors_stay_in_the_address_and_correct_every_figure_of_the_page() -> None:
    text, before = link(), estimate(PLAN).device_bytes / 2**30
    app = opened(preset="grpo-7b@1", calibration=text)
    assert "".join(app.query_params["calibration"]) == text
    said = words(app).replace("\\", "")
    twice = f"{2 * before:.1f}"
    assert f"Out of memory. Peak {twice} of 79.1 GiB" in app.error[0].value
    assert app.metric[0].value == f"{twice} GiB" and f"**{twice}** of 79.1 GiB" in said
    assert "Corrected by trials" in said and "Closed form]" not in said
    assert f"Without them: Fits. Peak {before:.1f} of 79.1 GiB" in said and "4 trials" in said
    app.button(key="calibration-off").click().run()
    assert "calibration" not in app.query_params
    assert "Corrected" not in words(app)
    assert app.metric[0].value == f"{before:.1f} GiB" and "Closed form]" in words(app)


def test_an_ablation_starts_from_the_corrected_figure() -> None:
    corrected = f"{2 * estimate(PLAN).device_bytes / 2**30:.1f} GiB"
    for calibration in ("", link()):
        app = opened(preset="grpo-7b@1", **({"calibration": calibration} if calibration else {}))
        app.segmented_control(key="explore view").set_value("Ablation").run()
        app.segmented_control(key="ablation measure").set_value("GPU peak").run()
        said = [str(chart.proto) for chart in app.get("vega_lite_chart")]
        assert any(f"line: the plan, {corrected}" in one for one in said) == bool(calibration)


def test_factors_of_another_card_change_nothing_and_say_why() -> None:
    said = words(opened(preset="grpo-7b@1", calibration=link(gpu="b200"))).replace("\\", "")
    assert "nothing is corrected" in said and "gpu: the calibration is of b200" in said


def test_hostile_factors_are_reported_and_leave_the_link() -> None:
    app = opened(preset="grpo-7b@1", calibration="1~<script>")
    assert "calibration" not in app.query_params
    assert "of this link could not be used" in words(app)
