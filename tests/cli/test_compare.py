"""``planner compare`` and ``planner report``, called as a person and as a script call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.__main__ import main
from planner.dryrun.ask.port import Port
from planner.estimate import estimate
from planner.plan.pin import Pinned, to_file
from planner.plan.presets import presets

GRPO = presets()["grpo-7b@1"].plan
WIDE = "preset=grpo-7b@1&gpus=16"
TOO_LARGE = "preset=grpo-7b@1&response_tokens=32768&micro_batch_size=8"


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(Port, "remembered", lambda self, plan: None)


def test_the_text_has_the_summary_the_differences_and_their_effects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", "grpo-7b@1", WIDE]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Both plans fit; fastest: Plan B; cheapest: grpo-7b@1;")
    lines = text.splitlines()
    assert [line for line in lines if line.split() == ["Number", "of", "GPUs", "8", "16"]]
    assert "Differences of Plan B from grpo-7b@1" in text and "alone in grpo-7b@1" in text
    assert "gpus" not in text.replace("GPUs", ""), "labels, never field names"


def test_json_has_each_plans_one_shape_and_the_effects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "grpo-7b@1", WIDE, TOO_LARGE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["plans"]] == ["grpo-7b@1", "Plan B", "Plan C"]
    assert found["plans"][1]["device_bytes"] == estimate(GRPO.changed(gpus=16)).device_bytes
    assert {"phases", "verdict", "cost", "throughput"} <= found["plans"][0].keys()
    differ = {one["field"]: one["values"] for one in found["differences"]}
    assert differ["gpus"] == [8, 16, 8] and differ["response_tokens"] == [2048, 2048, 32_768]
    effect = next(one for one in found["effects"] if one["to"] == "Plan B")
    assert effect["fields"] == ["gpus"] and effect["alone"]["device_bytes"] < 0


def test_the_exit_status_is_3_when_none_fits(capsys: pytest.CaptureFixture[str]) -> None:
    worse = TOO_LARGE.replace("size=8", "size=16")
    assert main(["compare", TOO_LARGE, worse]) == 3
    assert capsys.readouterr().out.startswith("None of the 2 plans fits.")
    assert main(["compare", TOO_LARGE, worse, "--exit-zero"]) == 0
    assert main(["compare", TOO_LARGE, "grpo-7b@1"]) == 0


@pytest.mark.parametrize(
    ("plans", "says"),
    [
        (["grpo-7b@1"], "Give 2 to 4"),
        (["grpo-7b@1"] * 5, "Give 2 to 4"),
        (["grpo-7b@1", "gpus=seven"], "gpus is not a whole number"),
        (["grpo-7b@1", "no-such-file"], "no link, no preset and no file"),
    ],
)
def test_what_is_wrong_is_said(
    plans: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *plans]) == 2
    assert says in capsys.readouterr().err


def test_a_file_of_the_compare_page_is_several_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plans.json"
    file.write_text(to_file([Pinned(GRPO, "before"), Pinned(GRPO.changed(gpus=16), "after")]))
    assert main(["compare", str(file)]) == 0
    assert "fastest: after; cheapest: before" in capsys.readouterr().out
    file.write_text(json.dumps({"plans": [{"plan": {"gpus": "x"}}, {"plan": {}}]}))
    assert main(["compare", str(file)]) == 2
    assert "plan 1 cannot be used: gpus" in capsys.readouterr().err


def test_a_report_is_written_once_and_says_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.html"
    assert main(["report", "grpo-7b@1", "--output", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("8 × H100 80GB SXM5: GRPO of") and "\nFits. Peak " in said
    page = file.read_text("utf-8")
    assert "Ready to launch, by an estimate" in page and "?v=9&amp;preset=grpo-7b%401" in page
    assert main(["report", "grpo-7b@1", "--output", str(file)]) == 2
    assert "exists" in capsys.readouterr().err and file.read_text("utf-8") == page
    assert main(["report", TOO_LARGE, "--output", str(file), "--force"]) == 3
    assert "Do not launch as planned: by the estimate" in file.read_text("utf-8")


def test_a_report_can_have_the_plans_of_a_search(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    asked = "preset=grpo-7b@1&model=Qwen/Qwen2.5-1.5B&gpus=1&sharding=none&offload=none"
    assert main(["report", asked, "--output", str(file), "--recommend", "cheapest"]) == 0
    written = file.read_text("utf-8")
    assert "Recommended: Cheapest" in written and "estimate only" in written
    assert "What would change it" not in written
