"""A bundle that is imported and changed: what describes its plan is the new plan's."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from planner.__main__ import main
from planner.estimate import estimate
from planner.importer.imported import Imported, imported
from planner.importer.rewriting import Rewritten, rewritten
from planner.launch.bundle.anew import described_anew
from planner.launch.export import export, fitted
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.plan.query import to_query_string


def bundle(framework: str, **fields: object) -> tuple[dict[str, str], Imported]:
    """An exported plan with its link, and what it is read as on the same machines."""
    plan = fitted(Plan(framework=framework, **fields), framework)
    link = f"https://headroom.example/?{to_query_string(plan, short=True)}"
    texts = {one.name: one.text for one in export(plan, framework, link=link).files}
    return texts, imported(texts, {"gpu": plan.gpu, "gpus_per_node": 8})


def preflight(text: str) -> dict[str, object]:
    """The constants that a preflight compares a node with."""
    (plan,) = (one for one in ast.parse(text).body if isinstance(one, ast.AnnAssign))
    assert plan.value is not None
    return dict(ast.literal_eval(plan.value))


def back(found: Imported, **fields: object) -> Rewritten:
    """The bundle for another plan, as the page and the command give it back."""
    assert found.plan is not None, found.notes
    new = rewritten(found, found.plan.changed(**fields))
    texts, notes = described_anew(new.texts, found.plan, new.plan)
    return replace(new, texts=texts, notes=(*new.notes, *notes))


@pytest.mark.parametrize(
    ("framework", "method", "sharding"),
    [
        *(("plain", "sft", "ddp"), ("hf_trainer", "sft", "ddp")),
        *(("trl", "grpo", "fsdp2"), ("verl", "grpo", "fsdp2")),
    ],
)
def test_a_bundle_s_preflight_and_expectations_are_the_new_plan_s(
    framework: str, method: str, sharding: str
) -> None:
    texts, found = bundle(
        framework, method=method, gpus=8, sharding=sharding, micro_batch_size=32
    )
    assert found.plan is not None, found.notes
    less = {"micro_batch_size": 16, "logprob_micro_batch_size": 16}
    new = back(found, **less)
    assert new.plan.micro_batch_size == 16 and not new.notes, new.notes
    after = estimate(new.plan)
    told = preflight(new.texts["preflight.py"])
    assert told["device_bytes"] == after.device_bytes != estimate(found.plan).device_bytes
    assert from_query_string("&".join(told["link"])).plan == new.plan  # type: ignore[arg-type]
    lines = new.texts["expected.md"].splitlines()
    assert lines[2] == after.verdict.sentence and lines[2] not in texts["expected.md"]
    kept = json.loads(new.texts["plan.json"])
    assert Plan(**kept["plan"]) == new.plan
    own = kept["link"].partition("?")
    assert own[0] == "https://headroom.example/" and from_query_string(own[2]).plan == new.plan
    old = json.loads(texts["plan.json"])["link"]
    assert not [name for name, text in new.texts.items() if old in text]


def test_a_bundle_for_other_machines_says_that_its_scripts_are_not() -> None:
    _, found = bundle("trl", method="sft", gpus=8)
    assert found.plan is not None, found.notes
    new = back(found, gpus=16)
    assert any("start 1 machine, and the plan has 2" in note for note in new.notes), new.notes
    assert preflight(new.texts["preflight.py"])["nodes"] == 2


def test_a_preflight_of_somebody_else_stays() -> None:
    texts, _ = bundle("trl", method="sft", gpus=8)
    texts |= {"preflight.py": "print('mine')\n", "plan.json": '{"plan": 1}'}
    found = imported(texts, {"gpu": "h100-80gb"})
    assert found.plan is not None, found.notes
    new = back(found, micro_batch_size=2)
    assert new.texts["preflight.py"] == "print('mine')\n"
    assert new.texts["expected.md"] == texts["expected.md"]


def test_the_command_s_diff_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, found = bundle("trl", method="sft", gpus=8, gpu="h100-80gb", micro_batch_size=64)
    assert found.plan is not None and estimate(found.plan).verdict.word == "out of memory"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in texts]
    assert main(["import", *files, "--set", "gpu=h100-80gb", "--diff"]) == 0
    said = capsys.readouterr().out
    assert {"+++ preflight.py", "+++ expected.md", "+++ plan.json"} <= {*said.splitlines()}
    assert "+Fits." in said
