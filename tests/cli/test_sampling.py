"""``planner sampling plan``: a table, JSON, and sentences for what is wrong."""

from __future__ import annotations

import json

import pytest

from planner.__main__ import main
from planner.sampling.link import to_query_string
from planner.sampling.presets import DOCUMENT, PRESETS


def test_a_preset_is_answered_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sampling", "plan", DOCUMENT]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Fits: 28,000 prompts of 50,304 values, online")
    assert "Recommended: " in said
    assert "Concatenating       10.9 GiB" in said
    assert "5.25 GiB in fp32, 2.62 GiB in fp16 and 4.85 GiB in compressed fp32" in said


def test_a_link_and_fields_on_it_are_answered_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    link = "https://headroom.example/sampling?" + to_query_string(PRESETS[DOCUMENT][1])
    given = ["--assembly", "in-place", "--mode", "offline", "--host-ram", "64GiB"]
    assert main(["sampling", "plan", link, *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["host_ram"] == 64 * 2**30
    assert (found["plan"]["mode"], found["dimensions"]) == ("offline", 50_304)
    read = next(one for one in found["stages"] if one["name"] == "read")
    held = {term["name"]: term["bytes"] for term in read["terms"]}
    assert held["embeddings"] == 5_634_048_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "No settings were given"),
        (["--prompts", "5"], "Without a model"),
        (["--dimensions", "4", "--prompts", "10"], "not its own neighbour"),
        (["dimensions=4&index=best"], "index"),
        (["--model", "nobody/nothing"], "not in the catalog"),
    ],
)
def test_what_is_wrong_is_said_with_status_2(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sampling", "plan", *given]) == 2
    assert said in capsys.readouterr().err


def test_a_size_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sampling", "plan", "--dimensions", "4", "--host-ram", "24 bananas"])
    assert "such as 24GiB" in capsys.readouterr().err


def test_the_exit_status_is_3_when_it_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["sampling", "plan", "--dimensions", "50304", "--host-ram", "1GiB"]
    assert main(given) == 3
    assert main([*given, "--exit-zero"]) == 0
