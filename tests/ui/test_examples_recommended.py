"""Document 000's settings on Examples: its two beside three plans, each of which opens."""

from __future__ import annotations

from planner.estimate import estimate
from planner.examples import doc_000_plans
from planner.units import read_gib
from ui.opened_pages import opened


def test_the_three_plans_stand_beside_the_documents_settings_and_open() -> None:
    app = opened("examples")
    app.session_state["open:recommended-000"] = True
    app.run()
    assert not app.exception
    table = next(one.value for one in app.table if "Peak of a card" in one.value.columns)
    assert [name.split(":")[0] for name in table.index] == [
        *("Document", "Document", "Conservative", "Balanced", "Aggressive")
    ]
    for case in doc_000_plans.settings():
        peak = table.loc[case.label, "Peak of a card"]
        assert read_gib(estimate(case.plan).device_bytes).split(".")[0] in peak
        assert case.plan.gpus == 8
    app.button(key="recommended-Balanced").click().run()
    assert app.session_state["draft"].plan == doc_000_plans.settings()[3].plan


def test_plans_that_are_the_same_are_said_to_be() -> None:
    """A search finds nothing faster at less margin, so three rows are one plan."""
    named = {case.label: case.plan for case in doc_000_plans.settings()}
    same = [name for name in ("Balanced", "Aggressive") if named[name] == named["Conservative"]]
    said = doc_000_plans.alike()
    assert all(name.lower() in said.lower() for name in same) and bool(said) == bool(same)
    app = opened("examples")
    app.session_state["open:recommended-000"] = True
    app.run()
    assert any(said in one.value for one in app.markdown)
