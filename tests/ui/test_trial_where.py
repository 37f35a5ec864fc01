"""The choice between this machine and the Ray cluster that a setting of the owner names."""

from __future__ import annotations

from typing import Any

import pytest

from planner.trial.ask.process import TRIALS
from planner.trial.ask.request import request_of
from planner.trial.ask.result import Environment
from planner.trial.cluster import client as cluster
from planner.ui.trial import inputs as trial_where
from ui.trial_page import (
    PLAN,
    START,
    StandIn,
    ended,
    looked_at,
    opened,
    press,
    running,
    standing_in,
    words,
)

SETTING = "HEADROOM_RAY_ADDRESS"
ADDRESS = "http://head.example:8265"
CLUSTER = "The team's Ray cluster (head.example:8265)"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv(SETTING, ADDRESS)
    return standing_in(monkeypatch)


def places(app: Any) -> list[str]:
    """What the page offers as places; empty where it does not ask."""
    return [name for radio in app.radio if radio.key == "trial-where" for name in radio.options]


def test_without_the_setting_nobody_is_asked(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SETTING)
    app = opened()
    assert places(app) == [] and "Ray" not in words(app)
    press(app, START)
    assert stand_in.asked[0].ray == ""


def test_this_machine_is_first_and_the_cluster_is_one_choice(stand_in: StandIn) -> None:
    app = opened()
    assert places(app) == ["This machine", CLUSTER]
    app.radio(key="trial-where").set_value("cluster")
    looked_at(app)
    assert "on cuda:0 of the Ray cluster head.example:8265" in words(app)
    press(app, START)
    (asked,) = stand_in.asked
    assert (asked.ray, asked.device) == (ADDRESS, "cuda:0")
    assert app.button(key=START).disabled
    assert "Waiting for the Ray cluster head.example:8265" in words(app)
    # The same plan may run here meanwhile.
    app.radio(key="trial-where").set_value("here")
    assert not looked_at(app).button(key=START).disabled
    press(app, START)
    assert (stand_in.asked[1].ray, stand_in.asked[1].device) == ("", "cpu")


def test_a_node_without_a_card_can_be_asked_for(stand_in: StandIn) -> None:
    app = opened()
    assert [one for one in app.toggle if one.key == "trial-snapshot"]
    app.radio(key="trial-where").set_value("cluster")
    looked_at(app).selectbox(key="trial-cluster-device").set_value("cpu")
    # Files of this machine are no use to a node.
    assert not [one for one in app.toggle if one.key == "trial-snapshot"]
    press(looked_at(app), START)
    assert stand_in.asked[0].device == "cpu" and stand_in.asked[0].ray == ADDRESS


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("head:8265", f"{SETTING}: this is no address of a Ray cluster"),
        ("http://user:secret@head:8265", f"{SETTING}: the address holds a name or password"),
    ],
)
def test_a_wrong_setting_is_said_and_this_machine_remains(
    setting: str, said: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, setting)
    app = opened()
    assert said in words(app) and "secret" not in words(app) and places(app) == []
    press(app, START)
    assert stand_in.asked[0].ray == ""


def test_without_ray_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PACKAGES", ("no_such_package",))
    app = opened()
    assert "ray: not installed" in words(app) and places(app) == []


def test_where_trials_are_off_the_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_TRIALS", "0")
    app = opened()
    assert places(app) == [] and "head.example" not in words(app)


def test_a_trial_of_the_cluster_is_found_again_and_its_result_says_where(
    stand_in: StandIn,
) -> None:
    folder = running(request_of(PLAN, ray=ADDRESS, device="cuda:0"))
    folder.say("starting")
    folder.say("measuring", step=2, steps=5)
    assert "Running on the Ray cluster head.example:8265: measuring, step 2 of 5" in words(opened())
    folder.finish(ended_elsewhere(folder.identifier))
    assert "A processor of the Ray cluster head.example:8265" in words(opened())


def ended_elsewhere(identifier: str) -> Any:
    found = ended(environment=Environment(versions={}, cluster=ADDRESS)).result()
    assert found is not None
    return found.model_copy(update={"id": identifier})


def test_every_trial_has_a_name_for_its_place() -> None:
    named = trial_where.named
    assert named(request_of(PLAN)) == "the CPU"
    assert named(request_of(PLAN, device="cuda:1")) == "cuda:1"
    assert named(TRIALS.new(request_of(PLAN, ray=ADDRESS)).request()).endswith("example:8265")
