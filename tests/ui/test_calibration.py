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


def test_factors_stay_in_the_address_and_their_verdict_is_said() -> None:
    text = link()
    app = opened(preset="grpo-7b@1", calibration=text)
    assert "".join(app.query_params["calibration"]) == text
    said = words(app).replace("\\", "")
    assert "Corrected: Out of memory. Peak " in said
    assert "4 trials" in said and "uncorrected estimate" in said
    app.button(key="calibration-off").click().run()
    assert "calibration" not in app.query_params
    assert "Corrected" not in words(app)


def test_factors_of_another_card_change_nothing_and_say_why() -> None:
    said = words(opened(preset="grpo-7b@1", calibration=link(gpu="b200"))).replace("\\", "")
    assert "nothing is corrected" in said and "gpu: the calibration is of b200" in said


def test_hostile_factors_are_reported_and_leave_the_link() -> None:
    app = opened(preset="grpo-7b@1", calibration="1~<script>")
    assert "calibration" not in app.query_params
    assert "of this link could not be used" in words(app)
