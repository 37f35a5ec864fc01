"""What a person and a script read of an answer: status, cost, tables, models from outside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dry_run_answers import found, plan
from planner.__main__ import main
from planner.catalog import parse_config
from planner.catalog.model_catalog import Model
from planner.cli import plan_argument, trial
from planner.dryrun.ask.answer import answer
from planner.dryrun.ask.port import Port
from planner.estimate import estimate
from planner.plan.presets import presets
from planner.plan.query import to_query_string
from planner.trial.ask.result import OutOfMemory
from planner.units import read_seconds_between
from ui.trial_page import PLAN, result

FITS = "grpo-7b@1"
TOO_LARGE = "preset=grpo-7b@1&response_tokens=32768&micro_batch_size=8"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}


def test_the_exit_status_is_3_when_the_plan_does_not_fit_and_only_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", TOO_LARGE]) == 3
    assert main(["estimate", TOO_LARGE, "--json"]) == 3
    assert main(["estimate", TOO_LARGE, "--exit-zero"]) == 0
    assert main(["estimate", FITS]) == 0
    assert main(["estimate", "preset=grpo-7b@1&gpus=seven"]) == 2
    assert main(["estimate", TOO_LARGE, "--fail"]) == 3, "what scripts gave before goes on working"


@pytest.mark.parametrize("command", ["estimate", "dry-run", "trial", "compare", "report"])
def test_help_says_what_the_exit_status_means(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "2 when its input was wrong, 3 when" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("status", "code"), [("out of memory", 3), ("fits", 0), ("tight", 0)])
def test_a_dry_runs_status_is_by_its_own_verdict(
    status: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = answer(plan(), found())
    verdict = replace(ran.footprint.verdict, word=status)
    judged = replace(ran, footprint=replace(ran.footprint, verdict=verdict))
    monkeypatch.setattr(Port, "run", lambda self, plan, **options: judged)
    monkeypatch.setattr("planner.cli.dry_run.own_comparisons", lambda method: ())
    monkeypatch.setattr("planner.trial.evidence.stated_error.stated_of", lambda found, own: found)
    assert main(["dry-run", FITS]) == code
    assert main(["dry-run", FITS, "--exit-zero"]) == 0


def test_a_dry_run_that_gives_memory_back_to_fit_is_tight_in_text_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = answer(plan(), found(alloc_retries=3))
    monkeypatch.setattr(Port, "run", lambda self, plan, **options: ran)
    monkeypatch.setattr("planner.cli.dry_run.own_comparisons", lambda method: ())
    assert main(["dry-run", FITS]) == 0
    about, sentence, *lines = capsys.readouterr().out.splitlines()
    assert about.startswith("1 × ") and sentence.startswith("Tight. Peak ")
    why = "To fit, the allocator frees its cached memory 3 times a step."
    assert f"  {why}" in lines
    assert main(["dry-run", FITS, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    verdict = told["verdict"]
    assert (verdict["word"], verdict["sentence"]) == ("tight", sentence) and why in verdict["lines"]
    assert verdict["incomplete"] is False and told["limits"][0]["word"] == "tight"


@pytest.mark.parametrize(
    ("status", "code", "of_zero"),
    [("completed", 0, 0), ("out of memory", 3, 1), ("will not fit", 3, 1), ("failed", 1, 1)],
)
def test_a_trials_status_is_by_how_it_ended(
    status: str,
    code: int,
    of_zero: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fits = status in ("completed", "failed")
    more = {} if fits else {"measured": None, "out_of_memory": OutOfMemory(phase="building")}
    ended = result("20260131-120000-000000", status=status, **more)
    monkeypatch.setattr(trial, "_new", lambda request: SimpleNamespace(request=lambda: request))
    monkeypatch.setattr(trial, "_ended", lambda supervisor: ended)
    monkeypatch.setattr(trial, "_keep", lambda folder: None)
    asked = ["trial", to_query_string(PLAN)]
    assert main(asked) == code
    assert main([*asked, "--exit-zero"]) == of_zero


def test_the_cost_and_its_price_are_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    priced = "preset=grpo-7b@1&price_per_gpu_hour=2&steps=100"
    assert main(["estimate", priced]) == 0
    step = estimate(presets()["grpo-7b@1"].plan).step_seconds
    assert step is not None
    usd = step / 3600 * 8 * 2  # eight GPUs at two dollars
    text = capsys.readouterr().out
    cost_line = next(line for line in text.splitlines() if line.startswith("Cost: "))
    assert cost_line.startswith(f"Cost: ${usd:.2f} ($") and f" a step, ${100 * usd:,.2f} ($" in text
    assert "GPU-hours." in text and "tokens/s per GPU" in text and " MFU of the update" in text
    assert "Times between brackets: " in text
    assert "$2.00 per GPU-hour, typed in" in text
    assert main(["estimate", priced, "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["usd_per_step"] == pytest.approx(usd)
    assert cost["usd_run"] == pytest.approx(100 * usd)
    assert cost["price_source"] == "typed in"
    assert main(["estimate", FITS]) == 0
    assert "middle of the list prices of 20" in capsys.readouterr().out


def test_a_plan_that_does_not_run_has_no_cost_and_no_hours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", TOO_LARGE]) == 3
    text = capsys.readouterr().out
    assert "$" not in text and "One step" not in text and "GPU-hours" not in text
    assert main(["estimate", TOO_LARGE, "--json"]) == 3
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert (cost["usd_run"], cost["hours_run"]) == (None, None)


def test_a_sweep_puts_no_money_on_what_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", FITS, "--over", "response_tokens=2048,65536"]) == 0
    _, fits, too_large = capsys.readouterr().out.splitlines()
    assert "$" in fits and "out of memory" in too_large and "$" not in too_large


def test_a_config_file_is_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    assert main(["estimate", FITS, "--model", str(file), "--json"]) == 0
    given = json.loads(capsys.readouterr().out)["plan"]
    assert given["config"]
    assert main(["estimate", FITS, "--model", "Qwen/Qwen2.5-0.5B", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["model"] == "Qwen/Qwen2.5-0.5B"
    file.write_text("{}")
    assert main(["estimate", FITS, "--model", str(file)]) == 2
    assert capsys.readouterr().err.startswith("model")


@pytest.mark.parametrize(
    "arguments",
    [
        [FITS, "--model", "nobody/own-llama"],
        ["preset=grpo-7b@1&model=nobody/own-llama"],
        ["https://headroom.example/?v=1&preset=grpo-7b@1&model=nobody%2Fown-llama"],
    ],
)
def test_a_model_that_the_catalog_lacks_is_asked_of_the_hub(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def fetched(id: str) -> Model:
        asked.append(id)
        return parse_config(CONFIG)

    monkeypatch.setattr(plan_argument, "model_from_hub", fetched)
    assert main(["estimate", *arguments, "--json"]) == 0
    given = json.loads(capsys.readouterr().out)["plan"]
    assert asked == ["nobody/own-llama"]
    assert given["model"] == "nobody/own-llama" and given["config"]


def test_a_model_that_nobody_has_is_a_line_with_both_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetched(id: str) -> Model:
        raise ValueError("model: the Hub shows no public model Qwen/Qwen2.5-9B.")

    monkeypatch.setattr(plan_argument, "model_from_hub", fetched)
    assert main(["estimate", FITS, "--model", "Qwen/Qwen2.5-9B"]) == 2
    error = capsys.readouterr().err
    assert "the Hub shows no public model" in error and "did you mean" in error


def test_a_sweep_is_a_table_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sweep", FITS, "--over", "gpus=7,8", "--over", "response_tokens=1024,2048"]
    assert main(arguments) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == [
        *("gpus", "response_tokens", "verdict", "GPU", "GiB", "of", "GiB", "host", "GiB"),
        *("worst", "phase", "step", "tokens/s", "per", "GPU", "MFU"),
        *("GPU-hours", "a", "step", "GPU-hours", "of", "run", "cost", "a", "step"),
        *("cost", "of", "run"),
    ]
    assert [line.split()[2] for line in lines] == ["impossible"] * 2 + ["fits"] * 2
    own = estimate(presets()[FITS].plan.changed(response_tokens=1024))
    assert f"{own.device_bytes / 2**30:.1f}" in lines[2]
    assert str(own.device_bytes) not in lines[2]
    assert own.step_seconds and own.low_seconds and own.high_seconds
    between = read_seconds_between(own.step_seconds, own.low_seconds, own.high_seconds)
    assert between in lines[2] and lines[2].rstrip().endswith(")"), "dollars have an interval too"
    assert len({line.index("fits") for line in lines[2:]}) == 1
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[2]["device_bytes"] == own.device_bytes and rows[0]["device_bytes"] is None


def test_defaults_are_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "gpus=16"]) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if "defaults" in line]
    assert len(line) < 100
