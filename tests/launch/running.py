"""Running an exported script with stand-ins for the programs it starts."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner import catalog
from planner.launch.launch import Launch

STAND_IN = """#!/bin/bash
{ printf '%s\\0' "${0##*/}" "$@"; printf '\\n\\0'; } >> "$RECORD"
"""

PATHS = {
    "TRAIN_FILES": "/data/train.parquet",
    "VAL_FILES": "/data/val.parquet",
    "DATASET": "owner/questions",
    "REWARD_URL": "http://localhost:9/reward",
    "ENGINE_HOST": "10.0.0.2",
    "NODE_RANK": "0",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
}


COMMON = {"environment.sh", "preflight.py", "expected.md", "plan.json", "requirements.txt"}
"""Files of every export."""

TESTS = Path(__file__).parents[1]


def here() -> dict[str, str]:
    """The environment of a process that needs no network, no GPU, and modules of these tests."""
    paths = os.pathsep.join(map(str, (TESTS, TESTS.parent)))
    offline = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, **offline, "PYTHONPATH": paths}


def unpack(launch: Launch, folder: Path) -> Path:
    """Write an export's files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in launch.files:
        (folder / file.name).write_text(file.text)
    return folder


def run(folder: Path, script: str = "launch.sh", **variables: str) -> list[list[str]]:
    """Run a script; return every command a stand-in got but the preflight's, as its words.

    Raises:
        subprocess.CalledProcessError: the script failed.
    """
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("python3", "accelerate", "ray", "vllm"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    record = folder / "record"
    record.write_bytes(b"")
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "RECORD": str(record),
        "OUTPUT_DIR": str(folder / "out"),
        **variables,
    }
    subprocess.run(
        ["bash", script], cwd=folder, env=environment, check=True, capture_output=True, timeout=600
    )
    calls = record.read_bytes().decode().split("\n\0")
    words = [call.split("\0")[:-1] for call in calls if call]
    return [each for each in words if not each[1].endswith("preflight.py")]


class Worker:
    """A process that reads requests and answers them, one JSON line each."""

    def __init__(self, script: str, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**here(), **variables},
            text=True,
        )
        self.read()

    def read(self) -> dict[str, Any]:
        """The next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise RuntimeError(self.process.stderr.read()[-3000:])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=600)


@dataclass(frozen=True, slots=True)
class Tiny:
    """What a program runs on here: a folder with a model and prompts; and the model's config."""

    folder: Path
    config: str

    @classmethod
    def made(cls, worker: Worker, folder: Path, *, rows: int = 8) -> Tiny:
        """A Qwen2 of two layers; prompts of 48 and of 40 bytes in turn, each a token."""
        request = {"kind": "make", "folder": str(folder / "model"), "hidden": 128, "layers": 2}
        reply = worker.ask(request)
        assert "error" not in reply, reply
        letters = random.Random(0)
        prompts = [
            "".join(letters.choice("abcdef ") for _ in range((48, 40)[row % 2]))
            for row in range(rows)
        ]
        lines = [json.dumps({"prompt": prompt, "answer": "a"}) + "\n" for prompt in prompts]
        (folder / "prompts.jsonl").write_text("".join(lines))
        return cls(folder, catalog.encode_config(reply["config"]))

    def asked(self, program: Path, kind: str, *flags: str, **more: Any) -> dict[str, Any]:
        """A request about a program on a CPU with this model and these prompts."""
        words = ["--dataset", str(self.folder / "prompts.jsonl"), "--device", "cpu"]
        words += ["--output", str(program.parent / "out"), "--model", str(self.folder / "model")]
        return {"kind": kind, "program": str(program), "argv": [*words, *flags], **more}


def read_by_trl(worker: Worker, folder: Path, launch: Launch, plan: Any) -> dict[str, Any]:
    """What TRL's own parser makes of the arguments that launch.sh passes, or its error.

    Where a program runs in place of TRL's script, what the parser makes of its settings.
    """
    unpack(launch, folder)
    words = run(folder, **PATHS)[-1]
    programs = [word for word in words if word.endswith(".py")]
    begins = words.index(*programs) if programs else words.index("-m")
    return worker.ask(
        {
            "arguments": words[begins + 1 + (not programs) :],
            "program": "".join(str(folder / name) for name in programs),
            "launcher": words[4:begins],
            "folder": str(folder),
            "method": plan.method,
            "processes": plan.gpus - plan.rollout_gpus,
        }
    )


def read_by_verl(worker: Worker, folder: Path, launch: Launch) -> dict[str, Any]:
    """What verl's own composition and validation make of launch.sh's overrides, or its error."""
    words = run(unpack(launch, folder), **PATHS)[-1]
    assert words[:2] == ["python3", "-m"]
    return worker.ask({"program": words[2], "overrides": words[3:]})
