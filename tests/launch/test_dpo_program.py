"""DPO's programs: a step in the bytes of its dry run, and references that were computed before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from launch.own_programs import ADAPTERS, AUTOCAST, is_ours, made, takes_what_is_planned
from launch.running import Worker, unpack
from planner.frameworks.plain.exporter import write
from planner.plan import Plan

CASES: dict[str, dict[str, Any]] = {
    "copy": {"batch_shape": "full", "logits": "full"},
    "offloaded": {"reference": "offloaded", **AUTOCAST, "gradient_checkpointing": "full"},
    "adapters": {"reference": "adapter-disabled", **ADAPTERS, "micro_batch_size": 2},
    "cached-logprobs": {"reference": "cached-logprobs"},
    "cached-activations": {"reference": "cached-activations", **AUTOCAST},
    "cached-activations-adapters": {"reference": "cached-activations", **ADAPTERS},
}


def planned(**changes: Any) -> Plan:
    return made(**{"method": "dpo", "prompts_per_update": 2, **changes})


class Exported:
    """A plan's programs in a folder, to be run on the tiny models."""

    def __init__(self, plan: Plan, folder: Path, tiny: Path, worker: Worker) -> None:
        self.plan, self.worker = plan, worker
        self.folder = unpack(write(plan, ""), folder)
        self.data = tiny / ("whole.jsonl" if plan.batch_shape == "full" else "rows.jsonl")
        self.model = tiny / "policy"

    def asked(self, name: str, *more: str, **request: str) -> dict[str, Any]:
        """The request that runs a program on the tiny models."""
        arguments = ["--data", str(self.data), "--model", str(self.model), "--device", "cpu"]
        arguments += ["--cache", str(self.folder / "cache"), "--output", str(self.folder / "out")]
        arguments += ["--learning-rate", "1e-3", *more]
        return {"program": str(self.folder / name), "arguments": arguments, **request}

    def run(self, name: str, *more: str, **request: str) -> dict[str, Any]:
        return self.worker.ask(self.asked(name, *more, **request))

    def train(self, *more: str) -> dict[str, Any]:
        return self.run("train_dpo.py", "--steps", "3", *more, step="step", loss="dpo_loss")

    def precompute(self) -> str:
        found = self.run("precompute_reference.py")
        assert found.keys() == {"told"}, found
        return str(found["told"])


@pytest.mark.parametrize("case", CASES)
def test_a_step_takes_the_dry_runs_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    exported = Exported(plan, tmp_path, tiny, programs)
    if plan.reference.startswith("cached"):
        exported.precompute()
    found = exported.train()
    assert "peaks" in found, found
    if plan.batch_shape == "full":
        is_ours(found)
    takes_what_is_planned(plan, found)


def losses(found: dict[str, Any]) -> list[str]:
    return [line for line in str(found["told"]).splitlines() if line.startswith("Step ")]


@pytest.mark.parametrize("form", ["cached-logprobs", "cached-activations"])
def test_a_reference_from_disk_is_the_one_beside_the_policy(
    form: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    live = Exported(planned(), tmp_path / "live", tiny, programs)
    cached = Exported(planned(reference=form), tmp_path / "cached", tiny, programs)
    assert "Run precompute_reference.py" in cached.train()["stopped"]
    assert "reference-00000.safetensors: 6 pairs" in cached.precompute()
    assert "is there already" in cached.precompute()
    found = losses(live.train())
    assert losses(cached.train()) == found and len(found) == 3


def test_a_cache_of_other_data_or_weights_is_refused(
    programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    exported = Exported(planned(reference="cached-logprobs"), tmp_path / "a", tiny, programs)
    exported.precompute()
    before = exported.data
    exported.data = tmp_path / "other.jsonl"
    exported.data.write_text(before.read_text() + before.read_text())
    why = exported.train()["stopped"]
    assert "is stale" in why and "data was" in why and "pairs was 6 and is 12" in why
    exported.data = before
    exported.model = tmp_path / "model"
    shutil.copytree(tiny / "policy", exported.model)
    weights = exported.model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    why = exported.train()["stopped"]
    assert "revision was" in why and "data was" not in why
    # What is stale is computed anew, and then of use.
    exported.precompute()
    assert len(losses(exported.train())) == 3


def test_full_rows_are_asked_of_the_data(programs: Worker, tiny: Path, tmp_path: Path) -> None:
    exported = Exported(planned(batch_shape="full"), tmp_path, tiny, programs)
    exported.data = tiny / "rows.jsonl"
    assert "plan padded" in exported.train()["stopped"]
