"""The timeline of a log written by hand: highest instants, and every phase."""

from __future__ import annotations

from planner.dryrun.logs.curve import timeline
from planner.dryrun.logs.log import BIRTH, DEATH, PHASE, STEP, Log, Made


def log(events: list[tuple[int, int, int]]) -> Log:
    made = {
        key: Made(value, f"aten::op{key}", "layers.0", "policy", "activations", (value,), "float32")
        for kind, key, value in events
        if kind == BIRTH
    }
    return Log(events=events, made=made, names=["forward", "step"])


def test_each_stretch_is_its_highest_instant() -> None:
    events = [(PHASE, 0, 1)]
    for key in range(1, 9):  # each tensor goes before the next comes, the fourth is the largest
        size = 100 if key == 4 else 10
        events += [(BIRTH, key, size), (DEATH, key, size)]
    (point,) = timeline(log(events), points=1)
    assert (point.op, point.by_category) == ("aten::op4", {"activations": 100})
    assert point.event == 7


def test_a_phase_in_which_no_tensor_is_made_has_a_point_of_its_own() -> None:
    events = [(PHASE, 0, 1), (BIRTH, 1, 50), (PHASE, 0, 0), (PHASE, 1, 1), (PHASE, 1, 0)]
    points = timeline(log(events), points=1)
    assert [(point.phase, sum(point.by_category.values())) for point in points] == [
        ("forward", 50),
        ("step", 50),
    ]


def test_only_the_last_step_is_shown() -> None:
    events = [(PHASE, 0, 1), (BIRTH, 1, 5), (PHASE, 0, 0), (STEP, 2, 0), (PHASE, 1, 1)]
    assert [point.phase for point in timeline(log(events))] == ["step"]


def test_what_a_phase_makes_is_not_in_the_last_phases_module() -> None:
    from planner.dryrun.run.tracker import Tracker

    tracker = Tracker()
    tracker.phase("policy backward", True)
    tracker.module = "layers.0.mlp"
    tracker.phase("policy backward", False)
    tracker.phase("optimizer step", True)
    assert tracker.module == ""
