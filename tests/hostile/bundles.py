"""Exports launched with hostile values for what they ask: every framework, method and place."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostile.values import Wrong, drawn, same
from launch.running import PATHS, unpack
from launch.test_places import ATOMIC, HOSTS, SRUN
from launch.tiny_models import config
from planner import catalog
from planner.launch.bundle.places import PLACES, RAY_JOB, asked, why_not_on
from planner.launch.export import export, exported, fitted
from planner.launch.launch import Launch
from planner.launch.script import SAFE_PATH
from planner.plan import Plan, choices
from planner.plan.trainers import exporting

UNSAFE = re.compile(rf"[^{SAFE_PATH}]")
UNNAMED = re.compile(r"[^\w.\-/]")
"""No character of a model's name, as a plan has it."""
MARK = "MARKED{}.jsonl"


@dataclass
class Bundle:
    """An export in a folder, with stand-ins for all that it starts."""

    launch: Launch
    on: str
    folder: Path
    names: tuple[str, ...] = ()
    """Variables that it takes from a person."""
    usual: list[list[str]] = field(default_factory=list)
    """What it starts where these are harmless, marked texts."""

    def __post_init__(self) -> None:
        unpack(self.launch, self.folder)
        programs = self.folder / "programs"
        programs.mkdir()
        texts = dict.fromkeys(("accelerate", "ray", "vllm"), ATOMIC)
        texts |= {"python3": CARRYING, "srun": SRUN, "scontrol": HOSTS}
        for name, text in texts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        script = self.folder / self.launch.files[0].name
        text = script.read_text().replace("{1..300}", "1").replace("sleep 2", "true")
        script.write_text(text)
        known = {name for name, _ in asked(self.launch)} - {*FROM_OUTSIDE}
        self.names = (*sorted(known), "OUTPUT_DIR")
        marks = {name: MARK.format(at) for at, name in enumerate(self.names)}
        ended, self.usual = self.started(marks)
        assert ended == 0, (self.launch.framework, self.on)

    def started(self, values: Mapping[str, str]) -> tuple[int, list[list[str]]]:
        """How the script ends with these values, and every command that it comes to."""
        record = self.folder / "record"
        record.write_bytes(b"")
        done = subprocess.run(
            ["bash", str(self.folder / self.launch.files[0].name)],
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'programs'}:/usr/bin:/bin",
                "RECORD": str(record),
                "LC_ALL": "C.UTF-8",
                **{name: PATHS[name] for name in FROM_OUTSIDE if name in PATHS},
                **SCHEDULER,
                "SLURM_SUBMIT_DIR": str(self.folder),
                **values,
            },
            capture_output=True,
            timeout=60,
        )
        calls = record.read_bytes().decode().split("\n\0")
        return done.returncode, sorted([*_words(call.split("\0")[:-1])] for call in calls if call)

    def holds(self, values: Mapping[str, str]) -> None:
        """Raise unless these values arrive where the marked ones did, or are refused."""
        ended, calls = self.started(values)
        if list(self.folder.rglob("pwned")):
            raise Wrong("something ran")
        unsafe = self.launch.framework == "verl" and any(map(UNSAFE.search, values.values()))
        if unsafe and self.on != RAY_JOB:  # whose job alone sees what launch.sh refuses
            return same("end", (ended, self.trained(calls)), (2, []))
        wanted = self.usual
        for at, name in enumerate(self.names):
            wanted = [[self.word(w, MARK.format(at), values[name]) for w in c] for c in wanted]
        return same("words", (ended, calls), (0, sorted(wanted)))

    def word(self, word: str, mark: str, value: str) -> str:
        """A word with a value in the place of its mark; of a path what the folder makes of it."""
        whole = os.path.realpath(self.folder / value)
        return word.replace(f"{self.folder}/{mark}", whole).replace(mark, value)

    def trained(self, calls: list[list[str]]) -> list[list[str]]:
        """The commands that train."""
        return [words for words in calls if "verl.trainer" in " ".join(words)]


def _words(call: list[str]) -> Iterator[str]:
    """A command's words; what a job of Ray carries, one by one."""
    for word in call:
        if word.startswith('{"env_vars"'):
            yield from (f"{name}={value}" for name, value in json.loads(word)["env_vars"].items())
        else:
            yield word


CARRYING = f"""{ATOMIC}
# What a job is to carry of the variables, Python says.
if [ "$1" = -c ]; then exec {shlex.quote(sys.executable)} "$@"; fi
"""

FROM_OUTSIDE = ("NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "ENGINE_HOST", "RAY_ADDRESS")
"""Variables that a scheduler or a cluster has, not a person's texts."""
SCHEDULER = {
    "SLURM_JOB_ID": "70123",
    "SLURM_JOB_NODELIST": "node[1-4]",
    "RAY_ADDRESS": "http://10.0.0.9:8265",
}


def kinds() -> list[tuple[str, str, str, bool]]:
    """Framework, method, where it is launched, and whether the weights lie in a folder."""
    return [
        (framework, method, on, own)
        for framework in exported()
        for method in choices("method")
        if framework in exporting(method)
        for on in PLACES
        for own in (False, True)
    ]


class Exports:
    """Bundles, each made when it is drawn first."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice, self.made = folder, dice, dict[Any, Bundle | None]()
        self.kinds = kinds()

    def bundle(self, kind: tuple[str, str, str, bool]) -> Bundle | None:
        if kind not in self.made:
            self.made[kind] = self.make(*kind)
        return self.made[kind]

    def make(self, framework: str, method: str, on: str, own: bool) -> Bundle | None:
        fields: dict[str, Any] = {"method": method, "framework": framework}
        if own:
            name = UNNAMED.sub("", drawn(self.dice)) or "a/tiny"
            fields |= {"config": catalog.encode_config(config()), "model": name}
            fields |= {"prompt_tokens": 64, "response_tokens": 64, "logits": "full"}
        if framework == "plain":
            fields |= {"gpus": 2, "sharding": "ddp"}
        for more in ({"rollout": "hf", "reward": "remote"}, {"reward": "remote"}, {}):
            try:
                plan = fitted(Plan(**fields, **more), framework)
            except ValueError:  # one that no plan has, or no export
                continue
            if why_not_on(plan, export(plan, framework), on):
                return None
            folder = self.folder / f"{framework}-{method}-{on}-{own}"
            return Bundle(export(plan, framework, on=on), on, folder)
        return None

    def tried(self) -> int:
        """A launch with values drawn for all that it asks; how many these were."""
        bundle = self.bundle(self.dice.choice(self.kinds))
        if bundle is None:
            return 0
        values = {name: f"{drawn(self.dice)}.jsonl" for name in bundle.names}
        if bundle.launch.framework == "verl" and self.dice.random() < 0.5:
            values = {name: UNSAFE.sub("", value) for name, value in values.items()}
        bundle.holds(values)
        return len(values)
