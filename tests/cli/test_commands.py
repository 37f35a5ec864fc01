"""The five commands, called as a person calls them."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.__main__ import main
from planner.cost import cost
from planner.estimate import estimate
from planner.formulas.decoding import LONGEST
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.plan.presets import presets
from planner.throughput import read_figure, throughput
from planner.units import read_seconds

KEYS = {
    *("v", "source", "plan", "verdict", "budget_bytes", "requested_bytes", "allocated_bytes"),
    *("reserved_bytes", "device_bytes", "host_bytes", "seconds", "worst_phase", "worst_rank"),
    *("seconds_from", "reference_cache", "error", "phases", "warnings", "notes"),
}
"""The design's one shape of an answer."""


def test_estimate_says_the_verdict_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "grpo-7b@1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("8 × H100 80GB SXM5: GRPO of Qwen2.5-7B with ")
    assert lines[1] == "Error of the peak not measured for fused logits and FSDP2."
    assert lines[2].startswith("Fits. Peak ") and lines[3].startswith("  ")
    assert any(line.startswith("policy backward") for line in lines)


def test_a_step_at_caps_stands_beside_one_of_a_typical_shape_with_its_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shape = "1~lognormal_1401~651"
    plan = presets()["grpo-7b@1"].plan
    other = estimate(plan.changed(length_distribution=shape))
    assert main(["estimate", "grpo-7b@1"]) == 0
    text = capsys.readouterr().out
    assert "These figures assume every response at the limit." in text
    assert "a step takes 43.0 s (15.7–83.3); that shape is of Qwen2.5-0.5B-Instruct's" in text
    assert main(["estimate", "grpo-7b@1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["typical_shape"]
    assert told["length_distribution"] == shape and "DeepMath-103K" in told["source"]
    ends = told["low_seconds"], told["seconds"], told["high_seconds"]
    assert ends == pytest.approx((other.low_seconds, other.step_seconds, other.high_seconds))
    for own in (f"preset=grpo-7b@1&length_distribution={shape}", "sft-8b@1"):
        assert main(["estimate", own, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["typical_shape"] is None


def test_json_says_what_the_longest_responses_do(capsys: pytest.CaptureFixture[str]) -> None:
    link = "preset=grpo-7b@1&response_tokens=32768&length_distribution=1~hist_900~9_30000~1"
    assert main(["estimate", link, "--json", "--exit-zero"]) == 0
    late = json.loads(capsys.readouterr().out)["longest_responses"]
    assert late["longest_tokens"] == 30_000 and 900 <= late["fitting_tokens"] < 30_000
    # One in ten is as long, and a step has 512 of them.
    assert late["reached"] == late["beyond"] == pytest.approx(1 - 0.9**512)
    assert main(["estimate", "grpo-7b@1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["longest_responses"] is None


def test_estimate_as_json_has_the_one_shape_and_loads_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", "preset=grpo-7b@1&response_tokens=1024", "--json"]) == 0
    first = capsys.readouterr().out
    answer = json.loads(first)
    assert answer.keys() >= KEYS
    assert answer["plan"]["response_tokens"] == 1024
    assert {"name", "requested_bytes", "device_bytes", "terms"} <= answer["phases"][0].keys()
    path = tmp_path / "answer.json"
    path.write_text(first)
    assert main(["estimate", str(path), "--json"]) == 0
    assert capsys.readouterr().out == first


def test_estimate_explains_a_phase_by_its_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "grpo-7b@1"]) == 0
    plain = capsys.readouterr().out.rstrip()
    assert main(["estimate", "grpo-7b@1", "--explain", "policy forward"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(plain), "an explanation comes below the answer"
    more = text[len(plain) :]
    assert "policy forward, GEMMs (policy): 3.24 s" in more
    assert "GEMM, 10,240 × 3,584 by 3,584 × 18,944, bf16" in more
    assert "  measured: 8,192 × 3,584 by 3,584 × 16,384 " in more
    assert "measured on this GPU with vLLM" in more and "Source: aiconfigurator" in more
    assert "policy backward," not in more and "one step:" not in more
    assert main(["estimate", "grpo-7b@1", "--explain", "all"]) == 0
    everything = capsys.readouterr().out
    assert "rollout, decode attention" in everything and "one step: 45.3 s" in everything
    # A cause that takes no time has nothing to open.
    assert "kernel launch overhead" not in everything


def test_every_cause_opens_to_its_formula_with_the_plans_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also those that rest on no kernel table: what memory limits, gathers, the host."""
    assert main(["estimate", "grpo-7b@1", "--explain", "optimizer step"]) == 0
    text = capsys.readouterr().out
    _, _, opened = text.partition("optimizer step, optimizer step (policy): ")
    took, formula, numbers, source = opened.splitlines()[:4]
    assert formula == "  = bytes_moved / (bandwidth_bytes_per_second * share)"
    # A weight's fp32 gradient, master and both moments are read, three of them written: 28 bytes
    # of an eighth of 7,615,616,512 weights, at 77 % of 3.35 TB/s.
    value = 28 * 7_615_616_512 / 8 / (3.35e12 * 0.77)
    assert eval(numbers.removeprefix("  = ").replace(",", "")) == pytest.approx(value, rel=1e-3)
    assert took == "10.3 ms" == f"{value * 1e3:.1f} ms"
    assert source.startswith("  Source: Williams et al. 2009") and "Left out: " in source


def test_a_step_opens_to_its_phases_and_what_it_yields(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "grpo-7b@1", "--explain", "step"]) == 0
    text = capsys.readouterr().out
    assert "one step: 45.3 s (10.6–65.9)\n  = rollout 17.2 s + old log-probs 5.51 s + " in text
    assert "\n  Interval: 0.23 to 1.45 times the estimate: " in text
    rate, formula, numbers, _ = text[text.index("tokens per second and GPU: ") :].splitlines()[:4]
    assert rate.endswith(": 3,614 (2,488–15,513) tokens per second")
    assert formula == "  = tokens / (step_seconds * gpus)"
    assert numbers == "  = 1,310,720 / (45.33 * 8)"  # 512 sequences of 512 + 2,048 tokens
    for name in ("MFU", "HFU", "GPU-hours of a step", "GPU-hours of the run", "cost of the run"):
        assert name in text
    assert "policy backward, " not in text


@pytest.mark.parametrize("overlap", ["one-step-off", "asynchronous"])
def test_an_overlapped_step_is_the_longer_of_its_sides(
    overlap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan: dict[str, Any] = {
        "framework": "verl", "gpus": 16, "rollout": "vllm-separate", "rollout_gpus": 8,
        "rollout_overlap": overlap, "length_distribution": "1~lognormal_700~600",
    }  # fmt: skip
    found = estimate(Plan(**plan))
    link = "&".join(f"{name}={value}" for name, value in plan.items())
    assert main(["estimate", link, "--explain", "step"]) == 0
    step = capsys.readouterr().out.partition("one step: ")[2].splitlines()[1]
    rollout = next(phase for phase in found.phases if phase.rank == "rollout")
    waits = next(term for term in rollout.times if term.name == LONGEST.name)
    own = rollout.seconds or 0.0
    if overlap == "asynchronous":
        own -= float(waits.seconds)
    assert step.startswith(f"  = the longer of rollout {read_seconds(own)}")
    assert ("never waiting" in step) == (overlap == "asynchronous")
    assert "and old log-probs" in step and " + weight sync " in step


def test_an_explanation_in_json_stands_in_its_phase_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", "grpo-7b@1", "--json", "--explain", "rollout"]) == 0
    phases = {phase["name"]: phase for phase in json.loads(capsys.readouterr().out)["phases"]}
    terms = {term["name"]: term for term in phases["rollout"]["times"]}
    decoding = terms["decode GEMMs"]["kernels"]
    assert decoding["seconds"] == pytest.approx(terms["decode GEMMs"]["seconds"])
    assert {"kind", "sizes", "runs", "share", "nearest"} <= decoding["kernels"][0].keys()
    assert terms["small decode kernels"]["kernels"] is None
    assert not any("kernels" in term for term in phases["policy forward"]["times"])


def test_a_phase_that_is_none_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", "grpo-7b@1", "--explain", "rolout"]) == 2
    told = capsys.readouterr()
    assert not told.out and "--explain: 'rolout' is no phase" in told.err
    assert "rollout, old log-probs" in told.err


def test_advise_says_what_makes_it_fit_and_its_changes_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = "preset=grpo-7b@1&model=Qwen/Qwen2.5-14B&gpu=a100-40gb"
    assert main(["advise", link]) == 0
    text = capsys.readouterr().out
    assert "Make it fit:" in text and "No effect on the peak here:" in text
    assert "Use the free memory" not in text
    assert main(["advise", link, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["now"]["verdict"] == "out of memory" and answer["now"]["blockers"]
    plan = presets()["grpo-7b@1"].plan.changed(model="Qwen/Qwen2.5-14B", gpu="a100-40gb")
    best = answer["make_it_fit"][0]
    after = estimate(plan.changed(**best["changes"]))
    assert after.verdict.word == best["after"]["verdict"] == "fits"
    assert after.device_bytes == best["after"]["device_bytes"]
    assert {phase["name"] for phase in best["phases"]} >= {"rollout", "policy backward"}
    assert answer["use_the_room"] is None and answer["gpus"] == []


def test_advise_mends_cards_that_are_out_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    link = "preset=grpo-7b@1&model=Qwen/Qwen2.5-0.5B&response_tokens=16384"
    assert main(["advise", link, "--json", "--gpus"]) == 0
    plain = {(one["gpu"], one["gpus"]): one for one in json.loads(capsys.readouterr().out)["gpus"]}
    assert main(["advise", link, "--json", "--gpus", "--mend"]) == 0
    found = json.loads(capsys.readouterr().out)["gpus"]
    assert [(one["gpu"], one["gpus"]) for one in found] == list(plain)
    mended = [one for one in found if one["mended"]]
    assert mended and all(one["word"] == "fits" for one in mended)
    assert all(plain[one["gpu"], one["gpus"]]["word"] == "out of memory" for one in mended)


def test_advise_of_a_plan_that_fits_uses_its_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "grpo-7b@1", "--json", "--gpus"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["make_it_fit"] == [] and answer["faster"]
    assert answer["use_the_room"]["after"]["seconds"] < answer["now"]["seconds"]
    assert {row["gpu"] for row in answer["gpus"]} >= {"h100-80gb", "rtx-4090"}


def test_sweep_prints_a_row_a_plan_in_the_order_given(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--over", "response_tokens=512:2048", "--over", "gpus=8,16"]
    assert main(["sweep", "grpo-7b@1", *arguments, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["response_tokens"], row["gpus"]) for row in rows] == [
        *(("512", "8"), ("512", "16"), ("1024", "8")),
        *(("1024", "16"), ("2048", "8"), ("2048", "16")),
    ]
    plan = presets()["grpo-7b@1"].plan.changed(response_tokens=1024, gpus=16)
    one = estimate(plan)
    assert int(rows[3]["device_bytes"]) == one.device_bytes
    [rollout] = (phase.seconds for phase in one.phases if phase.name == "rollout")
    assert float(rows[3]["seconds: rollout"]) == pytest.approx(rollout)


def test_sweep_says_what_a_step_and_the_run_yield_and_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sweep", "grpo-7b@1", "--over", "gpus=1,8"]) == 0
    header, stopped, runs = capsys.readouterr().out.splitlines()
    for name in ("MFU", "GPU-hours a step", "GPU-hours of run", "cost a step", "cost of run"):
        assert name in header
    figures = throughput(one := estimate(presets()["grpo-7b@1"].plan), cost(one))
    for key in ("mfu", "gpu_hours_per_step", "gpu_hours_run", "usd_per_step", "usd_run"):
        assert read_figure(figures[key]._replace(low=None, high=None)) in runs
    # What is out of memory costs nothing, and is not run; it has no rates either.
    assert "out of memory" in stopped and "$" not in stopped and "%" not in stopped
    assert stopped.split("  ")[-1].strip() in {phase.name for phase in one.phases}


def test_every_row_of_a_sweep_has_a_link_to_its_plan(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sweep", "grpo-7b@1", "--over", "micro_batch_size=1,3", "--over", "gpus=8,16"]
    assert main([*asked, "--links", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [bool(row["link"]) for row in rows] == [True, True, False, False]
    for row in rows[:2]:
        plan = from_query_string(row["link"]).plan
        assert plan is not None and (plan.micro_batch_size, plan.gpus) == (1, row["gpus"])
        assert estimate(plan).device_bytes == row["device_bytes"]
    assert main([*asked, "--links"]) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.endswith("link") and first.endswith(rows[0]["link"])
    assert main([*asked, "--json"]) == 0
    assert "link" not in json.loads(capsys.readouterr().out)[0]


def test_sweep_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sweep.csv"
    assert main(["sweep", "grpo-7b@1", "--over", "gpus=8:32", "--csv", str(path)]) == 0
    assert len(path.read_text().splitlines()) == 1 + 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("framework", ["trl", "verl"])
def test_launch_writes_the_default_preset_for_both_frameworks(
    framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", "grpo-7b@1", "--framework", framework]) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "run"
    assert main(["launch", "grpo-7b@1", "--framework", framework, "--out", str(folder)]) == 0
    written = sorted(path.name for path in folder.iterdir())
    assert written and all(f"# ---- {name}\n" in printed for name in written)
    assert all(path.stat().st_mode & 0o100 for path in folder.glob("*.sh"))
    capsys.readouterr()
    assert main(["launch", "grpo-7b@1", "--framework", framework, "--out", str(folder)]) == 2
    assert "exists" in capsys.readouterr().err


def test_launch_names_the_field_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "ppo-7b@1", "--framework", "trl"]) == 2
    error = capsys.readouterr().err
    assert error == (
        "framework: TRL has had no PPO since 1.13.0. Set framework to plain or verl.\n"
    )
    assert main(["launch", "grpo-7b@1", "--framework", "axolotl"]) == 2
    assert "axolotl" in capsys.readouterr().err


def test_launch_changes_what_is_in_the_way_when_told_to_and_says_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["launch", "preset=grpo-0.5b-24gb@1&sharding=none", "--framework", "verl"]
    assert main(asked) == 2
    assert "With --fit verl runs it, 9 fields changed." in capsys.readouterr().err
    assert main([*asked, "--fit"]) == 0
    told = capsys.readouterr().err
    assert "sharding none -> fsdp2" in told and "note: GPU peak 13.4 GiB -> " in told
    assert ", step 7.1" in told and ", run $" in told


def test_a_link_with_another_framework_says_what_followed_and_what_that_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["estimate", "preset=grpo-7b@1&framework=verl"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "note: The link changes Plain PyTorch to verl; fields that nobody chose follow "
        "(batch_shape padded -> packed, logits_dtype fp32 -> bf16, attention sdpa -> flash)."
    )
    assert re.fullmatch(r"note: GPU peak .* -> .*, step \S+ s and run \$\d+ as before\.", lines[1])


def test_models_and_gpus_list_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    models = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    # Qwen/Qwen2.5-7B's published count, tied nothing: 7,615,616,512.
    assert models["Qwen/Qwen2.5-7B"]["params"] == 7_615_616_512
    assert main(["models"]) == 0
    assert "7,615,616,512" in capsys.readouterr().out
    assert main(["gpus", "--json"]) == 0
    cards = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert 78 * 2**30 < cards["h100-80gb"]["budget_bytes"] < 80 * 2**30
    assert main(["gpus"]) == 0
    assert "nobody has reported its usable bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["estimate", "preset=grpo-7b@1&gpus=x&dtype=int3"], "gpus is not a whole number"),
        (["estimate", "nonsense"], "plan: 'nonsense' is no link"),
        (["sweep", "grpo-7b@1", "--over", "gpu=1:2"], "gpu: --over gpu=1:2: only numbers"),
        (["sweep", "grpo-7b@1", "--over", "steps=1:9:9", "--over", "steps=1:2"], "--over: A field"),
        (["sweep", "grpo-7b@1", "--over", "steps=1:9", "--csv", "/no/such/folder/x"], "Cannot"),
    ],
)
def test_what_is_wrong_is_said_in_lines_on_stderr(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[0].startswith(line)
    assert "Traceback" not in captured.err


def test_the_module_runs_as_a_program() -> None:
    root = Path(__file__).resolve().parents[2]
    program = [sys.executable, "-m", "planner"]
    done = subprocess.run([*program, "gpus"], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "h100-80gb" in done.stdout
    done = subprocess.run([*program, "estimate", "x=1"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("x is not a field of a plan.")
