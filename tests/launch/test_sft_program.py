"""SFT's program: a step in the bytes of its dry run, with the planner's own loss and gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launch.own_programs import ADAPTERS, AUTOCAST, is_ours, made, request_of, takes_what_is_planned
from launch.running import Worker
from planner.plan import Plan

CASES: dict[str, dict[str, Any]] = {
    "full": {"batch_shape": "full", "micro_batch_size": 2},
    "padded, recomputed": {"dtype": "bf16", "gradient_checkpointing": "full"},
    "autocast": {**AUTOCAST, "optimizer": "adamw-foreach"},
    "adapters": {**ADAPTERS, "batch_shape": "full"},
}


def planned(**changes: Any) -> Plan:
    return made(**{"method": "sft", "prompts_per_update": 2, **changes})


def asked(folder: Path, tiny: Path, plan: Plan, data: Path | None = None) -> dict[str, Any]:
    usual = "full-texts.jsonl" if plan.batch_shape == "full" else "texts.jsonl"
    return request_of(folder, tiny, plan, data or usual)


@pytest.mark.parametrize("case", CASES)
def test_a_step_takes_the_dry_runs_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    found = programs.ask(asked(tmp_path, tiny, plan))
    assert "peaks" in found, found
    if plan.batch_shape == "full":
        is_ours(found)
    takes_what_is_planned(plan, found)


def test_of_a_prompt_and_a_response_the_response_alone_is_learned(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    """A prompt that is not learned can be any; the loss is the response's alone."""
    data = tmp_path / "data.jsonl"
    row = {"prompt": "w7 w8 w9", "response": "w10 w11"}
    data.write_text(json.dumps(row) + "\n" + json.dumps({**row, "response": "w5 " * 40}) + "\n")
    one = planned(prompts_per_step=1, prompts_per_update=1)
    told = programs.ask({**asked(tmp_path / "a", tiny, one, data), "loss": ""})["told"]
    assert "Data: 1 rows of at most 25 tokens; longer and left out: 1." in told
    data.write_text(json.dumps({"text": "w7 w8 w9 w10 w11"}) + "\n")
    whole = programs.ask({**asked(tmp_path / "b", tiny, one, data), "loss": ""})["told"]
    first = [text.split("Step 1: loss ")[1].split()[0] for text in (told, whole)]
    assert first[0] != first[1]
    data.write_text('{"prompt": "w5"}\n')
    stopped = programs.ask(asked(tmp_path / "c", tiny, one, data))["stopped"]
    assert stopped == f"data: line 1 of {data} has no text, nor a prompt and a response."


def test_a_micro_batch_counts_by_its_share_of_the_update(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    """In one micro-batch or in two, an update learns the same; SGD's step is the gradient's."""
    found = []
    for size in (1, 2):
        plan = planned(batch_shape="full", micro_batch_size=size, optimizer="sgd")
        request = asked(tmp_path / str(size), tiny, plan)
        request["arguments"] += ["--learning-rate", "0.01"]
        told = programs.ask({**request, "loss": ""})["told"]
        found.append([float(line.split()[3]) for line in told.splitlines() if "Step " in line])
    assert found[0] == pytest.approx(found[1], rel=1e-5) and len(found[0]) == 3
    assert found[0][2] < found[0][0]
