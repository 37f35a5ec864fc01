"""The cards of the Examples page: sliders move figures, buttons lead on, claims unfold."""

from __future__ import annotations

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from planner.examples import dry_runs, lengths, options
from planner.examples.documents import DOCUMENTS
from planner.examples.prompts import SMALL
from planner.examples.tries import TRIES
from planner.plan import Plan
from planner.plan.presets import newest, presets
from planner.sampling import plan as sampling
from planner.sampling.presets import DOCUMENT, PRESETS
from planner.trial.ask.description import describe
from planner.trial.ask.request import request_of
from planner.ui.sampling.state import VALUES
from ui.opened_pages import opened, words

GIB = 2**30
SHOWN = ("000", "001", "002", "003", "004")
"""Cards with four figures each, in their order on the page."""


def figures(app: AppTest, number: str) -> dict[str, tuple[float, str]]:
    """A card's numbers with the line below each."""
    first = 4 * SHOWN.index(number)
    shown = app.metric[first : first + 4]
    return {one.label: (float(one.value.split()[0].replace(",", "")), one.delta) for one in shown}


def moved(app: AppTest, number: str, place: object) -> dict[str, tuple[float, str]]:
    app.select_slider(key=f"slider-{number}").set_value(place).run()
    assert not app.exception
    return figures(app, number)


def charts(app: AppTest) -> list[dict]:
    return [json.loads(one.proto.spec) for one in app.get("vega_lite_chart")]


def scales(spec: object) -> list[object]:
    """Every domain and every height in a chart, wherever they stand."""
    if isinstance(spec, dict):
        own = [spec[key] for key in ("domain", "height") if key in spec]
        return own + [found for value in spec.values() for found in scales(value)]
    return [found for value in spec for found in scales(value)] if isinstance(spec, list) else []


def graph(rows: int, tokens: range) -> float:
    """What the layers keep of these tokens' steps, by hand, in GiB."""
    lengths_of = [32 + t for t in tokens]
    return rows * 36 * sum(171_432 * n + 192 * n * n for n in lengths_of) / GIB


def test_sliders_move_the_figures_and_nothing_else() -> None:
    app = opened("examples")
    headers = [header.value for header in app.header]
    assert headers == [*(one.title for one in DOCUMENTS), "In depth"]
    assert not app.table, "claims and depth are folded"
    before, labels = charts(app), [metric.label for metric in app.metric]
    assert len(before) == len(DOCUMENTS) == len(app.select_slider)

    # Weights, gradients and two moments in two bytes, a hidden tensor and log-probs; then twice
    # the logits in fp32 and three numbers a token. Of the whole: half as much prompt.
    for response, found in ((4_000, figures(app, "000")), (8_000, moved(app, "000", 8_000))):
        tokens = 64 * response * 3 / 2
        ppo = 12e9 + tokens * (1_536 * 2 + 2)
        intuitor = ppo + 2 * tokens * 152_000 * 4 + tokens * 12
        assert found["Claimed: PPO"][0] == pytest.approx(ppo / GIB, abs=0.06)
        assert found["Claimed: Intuitor"][0] == pytest.approx(intuitor / GIB, abs=0.06)
        assert found["Claimed: Intuitor"][1] == f"{intuitor / ppo:.0f} times PPO"
        assert found["Headroom: Intuitor"][0] < found["Headroom: PPO"][0]

    # Twice the tokens: the graph grows by their steps; as coded, with dropout and autocast
    # in the place of fp32 copies, by nearly as much.
    short, long = moved(app, "001", 64), moved(app, "001", 128)
    assert long["Half the tokens"][0] == short["As it was"][0]
    grown = long["As it was"][0] - short["As it was"][0]
    assert 0.9 < grown / graph(1, range(64, 128)) < 1.25

    # The run that failed, then the one that followed: its first step keeps the whole graph.
    assert figures(app, "002")["As it was"][0] > 1.7 * figures(app, "002")["The card"][0]
    after = moved(app, "002", "2 × 32")
    kept = after["After, first step"][0] - after["After, later steps"][0]
    assert 0.9 < kept / graph(2, range(32)) < 1.25

    # In fp32 and twice while copied: 8 bytes for each of 50,304 values; offline copies nothing.
    for prompts in (28_000, 280_000):
        found = moved(app, "003", prompts)
        embeddings = prompts * 50_304 * 4 / GIB
        assert found["Online"][0] == pytest.approx(2 * embeddings, rel=0.05)
        assert found["Offline"][0] == pytest.approx(embeddings, rel=0.07)
        assert found["Streaming"][0] < 4

    # A copy is the same 3,085,938,688 weights again in bf16, at every length.
    for length in (512, 1024):
        found = moved(app, "004", length)
        more = found["Copy"][0] - found["Adapters disabled"][0]
        assert more == pytest.approx(3_085_938_688 * 2 / GIB, rel=0.06)

    after_all = charts(app)
    assert all(one != other for one, other in zip(before, after_all, strict=True))
    assert [scales(one) for one in before] == [scales(one) for one in after_all]
    assert [metric.label for metric in app.metric] == labels


def test_cards_lead_to_the_plan_they_show_and_to_a_small_trial() -> None:
    """That the page changes too, a browser shows: here a press is lost as the frame enters."""
    app = opened("examples")
    shown = {
        "000": lengths.REAL,
        "001": newest(dry_runs.OPTIMISED),
        "002": newest(dry_runs.BEFORE),
        "004": newest(options.ACTIVATIONS),
    }
    for number, preset in shown.items():
        app.button(key=f"plan-{number}").click().run()
        draft = app.session_state["draft"]
        assert draft.preset == preset
        if number != "000":  # the others' sliders begin at the preset itself
            assert draft.plan == presets()[preset].plan and draft.changed() == ()
        app.button(key=f"try-{number}").click().run()
        draft = app.session_state["draft"]
        assert draft.plan == TRIES[number].plan
        assert draft.plan.method == presets()[preset].plan.method
        told = describe(request_of(draft.plan, device="cpu"))
        assert told.refused == "" and told.most_bytes < 4 * GIB
    app.button(key="plan-003").click().run()
    assert sampling.try_sampling_plan(app.session_state[VALUES])[0] == PRESETS[DOCUMENT][1]
    moved(app, "003", 280_000)
    app.button(key="plan-003").click().run()
    assert app.session_state[VALUES]["prompts"] == 280_000
    app.button(key="try-003").click().run()
    assert sampling.SamplingPlan(**app.session_state[VALUES]) == SMALL
    assert SMALL.prompts <= 1_000
    moved(app, "000", 8_000)
    app.button(key="plan-000").click().run()
    assert app.session_state["draft"].plan == lengths.intuitor(8_000)
    assert lengths.intuitor(8_000).prompt_tokens == 4_000


def test_claims_unfold_as_rows_and_depth_below_without_field_names() -> None:
    app = opened("examples")
    for one in DOCUMENTS:
        app.session_state[f"open:claims-{one.number}"] = True
    app.run()
    rows = [row for table in app.table for _, row in table.value.reset_index().iterrows()]
    for row, claim in zip(rows, (c for one in DOCUMENTS for c in one.claims), strict=True):
        assert [*row.index] == ["Claim", "Verdict", "Ours", "Its formula", "Inputs", "Tested"]
        assert claim.what in row["Claim"] and claim.judgement in row["Verdict"]
        assert claim.why in row["Ours"].replace("\\*", "*")
        assert not re.search(r"\*\* | \*\*$| \*\*\.", row["Ours"]), "bold that does not end"
        if claim.working is not None:
            assert claim.working.expression in row["Its formula"]
            assert all(name in row["Inputs"] for name in claim.working.inputs)
    for one in DOCUMENTS:
        app.session_state[f"open:depth-{one.number}"] = True
    app.run()
    assert not app.exception
    text = words(app) + "".join(table.value.to_string() for table in app.table)
    text += "".join(json.dumps(chart) for chart in charts(app))
    many = [name for name in Plan.model_fields if "_" in name]
    assert [name for name in many if re.search(rf"(?<![\w`]){name}(?![\w`])", text)] == []
