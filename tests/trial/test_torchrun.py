"""Several processes with FSDP2: gloo on CPUs, started by torchrun or by the trial itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.trial.ask.endings import CannotRun
from planner.trial.run.process_group import sharding
from trial.running import TOLERANCE, command, errors, result_of, tiny

PLAN = tiny(
    "sft",
    "llama",
    gpus=2,
    sharding="fsdp2",
    prompts_per_step=8,
    dtype="bf16",
    master_dtype="fp32",
)
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.parametrize(
    ("launcher", "flags"),
    [(TORCHRUN, ()), ((), ("--processes", "2"))],
    ids=("torchrun", "by the trial"),
)
def test_two_real_ranks_hold_what_one_rank_was_said_to(
    launcher: tuple[str, ...], flags: tuple[str, ...], tmp_path: Path
) -> None:
    result = result_of(command(PLAN, *flags, "--steps", "1", data=tmp_path, launcher=launcher))
    assert result.status == "completed", (result.reason, result.stderr_tail)
    assert result.device.processes == 2
    assert any("highest of 2 processes" in note for note in result.notes)
    assert not any("rank 0 of" in note for note in result.notes)
    wrong = {phase: error for phase, error in errors(result).items() if abs(error) > TOLERANCE}
    assert not wrong


@pytest.mark.parametrize(
    ("plan", "field"),
    [(PLAN.changed(gpus=4), "gpus"), (tiny("sft", "llama"), "sharding")],
)
def test_processes_that_are_not_the_plans_are_refused(
    plan: object, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(CannotRun, match=f"^{field}: "), sharding(plan, "cpu"):  # type: ignore[arg-type]
        pass
