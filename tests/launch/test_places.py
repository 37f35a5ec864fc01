"""What a launch is started by: job scripts, run with stand-ins for Slurm's and Ray's programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launch.running import PATHS, STAND_IN, unpack
from planner.__main__ import main
from planner.launch.export import export, fitted
from planner.plan import Plan

ATOMIC = STAND_IN.replace('>> "$RECORD"', '> "$RECORD.$$"\ncat "$RECORD.$$" >> "$RECORD"')
"""One write a call, since a job's steps run side by side."""
SRUN = f"""{ATOMIC}\\
# As Slurm would, run what follows the options, once for each node of the step.
count=1
while [[ "$1" == --* ]]; do
  if [[ "$1" == --nodes=* ]]; then count="${{1#--nodes=}}"; fi
  shift
done
for ((place = 0; place < count; place++)); do SLURM_PROCID=$place "$@" || exit $?; done
"""
HOSTS = """#!/bin/bash
[ "$*" = "show hostnames node[1-4]" ] || exit 9
printf '%s\\n' node1 node2 node3 node4
"""
DATA = {name: PATHS[name] for name in ("DATASET", "TRAIN_FILES", "VAL_FILES", "REWARD_URL")}


def planned(framework: str, **fields: Any) -> Plan:
    return fitted(Plan(framework=framework, **fields), framework)


def ran(plan: Plan, on: str, folder: Path, **variables: str) -> list[list[str]]:
    """Every command that the job's script came to, as the words that stand-ins were given.

    Those of each node say which it is.
    """
    launch = export(plan, plan.framework, on=on)
    unpack(launch, folder)
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    texts = dict.fromkeys(("python3", "accelerate", "ray", "vllm"), ATOMIC)
    for name, text in (texts | {"srun": SRUN, "scontrol": HOSTS}).items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    slurm = {"SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_ID": "70123"}
    script = launch.files[0].name
    # Slurm runs a copy, from a place of its own.
    copy = folder / "spooled"
    # Nobody serves here, so nobody waits long for an engine.
    copy.write_text(launch.text(script).replace("{1..300}", "1").replace("sleep 2", "true"))
    record = folder / "record"
    record.write_bytes(b"")
    subprocess.run(
        ["bash", str(copy if on == "slurm" else folder / script)],
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "RECORD": str(record),
            "OUTPUT_DIR": str(folder / "out"),
            "SLURM_JOB_NODELIST": "node[1-4]",
            **slurm,
            **DATA,
            **variables,
        },
        check=True,
        capture_output=True,
        timeout=60,
    )
    calls = record.read_bytes().decode().split("\n\0")
    return [call.split("\0")[:-1] for call in calls if call]


def options(plan: Plan) -> set[str]:
    text = export(plan, plan.framework, on="slurm").text("job.sbatch")
    return {line.split("--")[1] for line in text.splitlines() if line.startswith("#SBATCH")}


def test_sbatch_is_asked_for_the_plans_nodes_and_cards() -> None:
    whole = options(planned("trl", gpus=32))
    assert {"nodes=4", "ntasks-per-node=1", "gpus-per-node=8", "exclusive", "mem=0"} <= whole
    part = options(planned("verl", gpus=2))
    assert {"nodes=1", "gpus-per-node=2"} <= part and not {"exclusive", "mem=0"} & part


def test_slurm_begins_trl_on_every_node(tmp_path: Path) -> None:
    calls = ran(planned("trl", gpus=32), "slurm", tmp_path)
    (step,) = [words for words in calls if words[0] == "srun"]
    assert {"--nodes=4", "--ntasks-per-node=1", "--cpu-bind=none"} <= set(step)
    checks = [words for words in calls if words == ["python3", "preflight.py"]]
    begun = [words for words in calls if words[0] == "accelerate"]
    assert len(checks) == len(begun) == 4
    for place, words in enumerate(begun):
        told = dict(zip(words, words[1:], strict=False))
        assert told["--machine_rank"] == str(place)
        assert told["--main_process_ip"] == "node1" and told["--main_process_port"] == "30123"
        assert told["--dataset_name"] == PATHS["DATASET"]


def test_slurm_begins_ray_on_all_nodes_and_verl_on_one(tmp_path: Path) -> None:
    calls = ran(planned("verl", gpus=32), "slurm", tmp_path)
    steps = sorted(words for words in calls if words[0] == "srun")
    head, workers = sorted(steps, key=lambda words: "--head" not in words)
    assert "--nodelist=node1" in head and {"--nodes=1", "--num-gpus=8", "--block"} <= set(head)
    assert head[head.index("ray") :][:3] == ["ray", "start", "--head"]
    assert {"--nodes=3", "--nodelist=node2,node3,node4"} <= set(workers)
    assert workers[-5:] == ["ray", "start", "--address=node1:30123", "--num-gpus=8", "--block"]
    # The cluster is there, so launch.sh begins none: it checks all nodes, then trains.
    check, train = [words for words in calls if words[0] == "python3"]
    assert check == ["python3", f"{tmp_path}/preflight.py", "--on-ray"]
    assert train[:3] == ["python3", "-m", "verl.trainer.main_ppo"] and "trainer.nnodes=4" in train
    assert len([words for words in calls if words[:2] == ["ray", "start"]]) == 4


def test_slurm_begins_one_node_of_verl_as_a_shell_does(tmp_path: Path) -> None:
    calls = ran(planned("verl", gpus=8), "slurm", tmp_path)
    assert [words[0] for words in calls] == ["srun", "python3", "python3"]
    assert calls[1][1:] == [f"{tmp_path}/preflight.py"]


def test_slurm_begins_an_engine_on_its_own_node_first(tmp_path: Path) -> None:
    engine = {"rollout": "vllm-separate", "rollout_gpus": 8, "rollout_tensor_parallel": 8}
    plan = planned("trl", model="Qwen/Qwen3-8B", gpus=32, **engine)
    calls = ran(plan, "slurm", tmp_path)
    steps = [words for words in calls if words[0] == "srun"]
    first, step = sorted(steps, key=lambda words: "engine.sh" not in words)
    assert {"--nodes=1", "--nodelist=node4", "engine.sh"} <= set(first)
    assert {"--nodes=3", "--nodelist=node1,node2,node3"} <= set(step)
    begun = [words for words in calls if words[0] == "accelerate"]
    assert {words[words.index("--vllm_server_host") + 1] for words in begun} == {"node4"}
    assert [words[:2] for words in calls if words[0] == "vllm"] == [["vllm", "serve"]]


@pytest.mark.parametrize("name", ["/data/it's $(touch pwned) \"é\".jsonl", "a\nb", "--x"])
def test_a_job_of_ray_carries_each_variable_as_it_is(name: str, tmp_path: Path) -> None:
    given = {"RAY_ADDRESS": "http://10.0.0.9:8265", "DATASET": name}
    calls = ran(planned("trl", gpus=8), "ray", tmp_path, **given)
    dump, submit = calls
    assert submit[:3] == ["ray", "job", "submit"] and submit[-3:] == ["--", "bash", "launch.sh"]
    told = dict(zip(submit, submit[1:], strict=False))
    assert told["--working-dir"] == str(tmp_path) and told["--entrypoint-num-gpus"] == "8"
    # What the stand-in was asked to run says which variables, and python3 what of them.
    said = subprocess.run(
        ["python3", *dump[1:]], env=given, capture_output=True, text=True, check=True
    )
    assert json.loads(said.stdout)["env_vars"] == {"DATASET": name}
    assert not list(tmp_path.rglob("pwned"))


def test_a_job_of_ray_leaves_verls_gpus_to_ray(tmp_path: Path) -> None:
    given = {"RAY_ADDRESS": "http://10.0.0.9:8265"}
    submit = ran(planned("verl", gpus=32), "ray", tmp_path, **given)[-1]
    assert "--entrypoint-num-gpus" not in submit


def test_the_command_takes_the_plans_framework_and_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "a")
    assert main(["launch", "framework=verl&gpus=16", "--on", "slurm", "--out", out]) == 0
    said = capsys.readouterr().out
    assert "# start: TRAIN_FILES=… VAL_FILES=… sbatch job.sbatch" in said
    assert (tmp_path / "a" / "job.sbatch").is_file()
    # The default's framework has no script for it, and nobody chose it.
    assert main(["launch", "grpo-7b@1", "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / "grpo.yaml").is_file()
    assert main(["launch", "method=sft&framework=trl&gpus=16", "--on", "ray"]) == 2
    assert "a process of its own on each of 2" in capsys.readouterr().err.replace("\n", " ")
