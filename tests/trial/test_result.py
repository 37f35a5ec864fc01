"""A result's JSON: what is written is read again, and a hostile file is refused in a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner import Plan, estimate
from planner.plan.presets import presets
from planner.plan.query import to_query_string
from planner.trial.ask.footprints import figures_of
from planner.trial.ask.result import Device, Ran, TrialResult, now, read_result, result_json


def finished(**changes: Any) -> TrialResult:
    plan = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none")
    figures = figures_of(estimate(plan))
    link = to_query_string(plan)
    values: dict[str, Any] = {
        "id": "20261121-221407-ab12cd",
        "status": "completed",
        "created": now(),
        "seconds": 12.5,
        "plan": link,
        "ran": (Ran(plan=link, layers=24, predicted=figures, measured=figures),),
        "device": Device(kind="cpu", name="a processor"),
        "predicted": figures,
        "estimated": figures,
        "measured": figures,
        "steps": 3,
    }
    return TrialResult(**{**values, **changes})


def data(**changes: Any) -> dict[str, Any]:
    return {**json.loads(result_json(finished())), **changes}


@pytest.mark.parametrize("key", presets())
def test_figures_hold_every_preset_of_every_method(key: str) -> None:
    figures = figures_of(estimate(presets()[key].plan))
    assert figures.device_bytes == estimate(presets()[key].plan).device_bytes
    assert figures.phases[0].terms


def test_what_is_written_is_read_again() -> None:
    result = finished()
    again = read_result(result_json(result))
    assert again == result
    assert again.planned().model == "Qwen/Qwen2.5-0.5B"
    assert json.loads(result_json(result))["measured"]["error"]["from"]


LINK = data()["plan"]
MEASURED = "1~h100-80gb~2.13.0~~2026-11-22_training-compute~0.2~0.3~0.4"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("[]", "one JSON object"),
        ('{"v":1,"v":1}', "'v' stands twice"),
        ("[" * 100_000, "nested deeper than"),
        (json.dumps(data(notes=[["x"]])), "notes.0"),
        (json.dumps(data(seconds=float("nan"))), "NaN is not a number"),
        (json.dumps(data()).replace('"seconds": 12.5', '"seconds": 1e999'), "seconds"),
        (json.dumps(data(seconds=-1)), "seconds"),
        (json.dumps(data(steps="3")), "steps"),
        (json.dumps(data(steps=True)), "steps"),
        (json.dumps(data(steps=10**400)), "a whole number of 401 digits is absurd"),
        (json.dumps(data(more=1)), "more"),
        (json.dumps(data(v=2)), "v: "),
        (json.dumps(data(plan=f"{LINK}&benchmark={MEASURED}")), "holds a benchmark"),
        (json.dumps(data(status="fine")), "status"),
        (json.dumps(data(source="estimate")), "source"),
        (json.dumps(data(created="yesterday")), "created"),
        (json.dumps(data(id="../../etc/passwd")), "id"),
        (json.dumps(data(plan="v=1&model=no/such")), "plan"),
        (json.dumps(data(plan=LINK + "&evil=1")), "plan"),
        (json.dumps(data(plan="v=1&preset=grpo-7b@1")), "is not complete"),
        (json.dumps(data(reason="\x1b[2J")), "reason"),
        (json.dumps(data(reason="x" * 3000)), "reason"),
        (json.dumps(data(stderr_tail="x" * 9000)), "stderr_tail"),
        (json.dumps(data(notes=["n"] * 1000)), "notes"),
        (json.dumps(data(measured=None)), "measured is missing"),
        (json.dumps(data(status="out of memory")), "out_of_memory is missing"),
        (json.dumps(data(extrapolated=True)), "fewer than two plans"),
        (json.dumps(data(device={"kind": "tpu", "name": "x"})), "device.kind"),
        (json.dumps(data(device={"kind": "cpu", "name": "x", "total_bytes": 2**60})), "device"),
        (json.dumps(data(measured={"source": "trial", "plan": {"a": [1]}})), "measured.plan.a"),
    ],
)
def test_a_hostile_file_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^.{1,400}$") as error:
        read_result(text)
    assert said in str(error.value)
    assert str(error.value).isprintable()


def test_a_huge_file_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ValueError, match="more than 8192 KiB"):
        read_result(b" " * (9 * 2**20))


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        read_result(b"\xff\xfe{}")
