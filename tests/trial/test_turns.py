"""The queue in front of a device survives crashes: locks end with the processes that hold them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from planner.background import GivenUp
from planner.jobs.turns import Turn
from trial.running import ROOT, until

HOLD = """
import sys, time
from pathlib import Path
from planner.jobs.turns import Turn
turn = Turn(["cuda:0"], "other-trial", Path(sys.argv[1]))
turn.wait(lambda ahead: None, lambda: False)
print("held", flush=True)
time.sleep(3600)
"""


def waiting(turn: Turn, looks: int = 3) -> list[int]:
    """How many were ahead, in each of some looks at the queue."""
    said: list[int] = []
    left = iter(range(looks))
    with pytest.raises(GivenUp):
        turn.wait(said.append, lambda: next(left, None) is None)
    return said


def test_a_killed_holder_gives_way(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    turn = Turn(["cuda:0"], "own-trial", tmp_path)
    assert waiting(turn) == [1]
    other = Turn(["cuda:1"], "elsewhere", tmp_path)
    other.wait(lambda ahead: None, lambda: True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    said: list[int] = []
    turn.wait(said.append, lambda: False)
    assert turn.handles
    turn.close()
    other.close()
    assert not list((tmp_path / "devices" / "cuda-0" / "queue").iterdir())


def test_places_are_in_order_of_arrival_and_move_up(tmp_path: Path) -> None:
    first, second, third = (Turn(["cpu"], f"trial-{n}", tmp_path) for n in "abc")
    first.wait(lambda ahead: None, lambda: False)
    assert waiting(second) == [1]
    assert waiting(third) == [2]
    first.close()
    assert waiting(third) == [1]
    second.wait(lambda ahead: None, lambda: False)
    second.close()
    third.wait(lambda ahead: None, lambda: False)
    third.close()


def test_a_worker_that_outlives_its_keeper_still_holds_the_device(tmp_path: Path) -> None:
    keeper = Turn(["cpu"], "trial-a", tmp_path)
    keeper.wait(lambda ahead: None, lambda: False)
    worker = subprocess.Popen(["sleep", "3600"], pass_fds=keeper.handles)
    keeper.close()
    following = Turn(["cpu"], "trial-b", tmp_path)
    assert waiting(following) == [1]
    worker.kill()
    worker.wait()
    until(lambda: following._take())
    following.close()
