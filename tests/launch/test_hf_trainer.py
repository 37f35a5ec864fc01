"""The program around transformers' Trainer: read by its own parser, and really run on a CPU."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import TrainingArguments

from accuracy.trl_cases import QWEN
from launch.running import PATHS, TESTS, here, run, unpack
from planner import catalog
from planner.dryrun.logs import curve
from planner.frameworks.hf_trainer import FRAMEWORK
from planner.frameworks.hf_trainer.exporter import write
from planner.frameworks.hf_trainer.run import step
from planner.frameworks.hf_trainer.settings import ADAPTERS, MODEL, ROWS, training
from planner.launch.export import export
from planner.plan import Plan

BASE: dict[str, Any] = {
    "framework": FRAMEWORK.name,
    "method": "sft",
    "model": "Qwen/Qwen2.5-0.5B",
    "gpus": 8,
}
KINDS: dict[str, dict[str, Any]] = {
    "ddp": {"sharding": "ddp", "dtype": "bf16", "master_dtype": "fp32"},
    "fsdp2": {"sharding": "fsdp2", "gradient_checkpointing": "full", "activation_offload": True},
    "zero3": {"sharding": "zero3", "offload": "all", "empty_cache": "every-step"},
    "lora": {
        **{"sharding": "none", "gpus": 1, "finetuning": "lora", "liger": True},
        **{"gradient_checkpointing": "full", "activation_offload": True},
    },
}


def plan_in(text: str) -> dict[str, Any]:
    (found,) = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "PLAN"
    ]
    assert found is not None
    values: dict[str, Any] = ast.literal_eval(found)
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_parser_reads_what_is_written(kind: str, tmp_path: Path) -> None:
    plan = Plan(**{**BASE, **KINDS[kind]})
    launch = export(plan, FRAMEWORK.name)
    told = plan_in(launch.text("train.py"))
    names = {field.name for field in fields(TrainingArguments)}
    given = {name: value for name, value in told.items() if name in names}
    assert given == training(plan)
    read = TrainingArguments(**given, output_dir=str(tmp_path), use_cpu=True)
    assert read.per_device_train_batch_size == plan.micro_batch_size
    together = plan.micro_batch_size * plan.gpus * read.gradient_accumulation_steps
    assert together == plan.prompts_per_update and read.max_steps == plan.steps
    by_accelerate = kind == "fsdp2"
    recomputes = plan.gradient_checkpointing == "full" and not by_accelerate
    assert read.activation_checkpointing == recomputes
    if kind == "lora":
        assert told[ADAPTERS]["r"] == plan.lora_rank
        assert read.activation_checkpointing_kwargs == {"use_reentrant": False, "offload": True}
        assert read.liger_kernel_config["fused_linear_cross_entropy"] is False
    words = run(unpack(launch, tmp_path / "files"), **PATHS)[-1]
    assert words[:4] == ["accelerate", "launch", "--config_file", "accelerate.yaml"]
    assert words[4] == "train.py"
    file = yaml.safe_load(launch.text("accelerate.yaml"))
    assert file["num_processes"] == plan.gpus


def test_every_row_is_a_setting_of_theirs() -> None:
    names = {field.name for field in fields(TrainingArguments)}
    from peft import LoraConfig

    lora = {f"{ADAPTERS}.{field.name}" for field in fields(LoraConfig)}
    assert {row.name for row in ROWS} <= {*MODEL, *names, *lora}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_passes_the_linter(kind: str, tmp_path: Path) -> None:
    folder = unpack(export(Plan(**{**BASE, **KINDS[kind]}), FRAMEWORK.name), tmp_path)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "110"]
    done = subprocess.run(
        [*command, "--select", "E,F,B,UP,SIM", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    subprocess.run(["bash", "-n", str(folder / "launch.sh")], check=True)


@pytest.mark.parametrize("name", ["a/b'); import os #", 'a/b"""\nimport os', "a/$(touch pwned)"])
def test_a_hostile_name_can_only_be_a_string(name: str, tmp_path: Path) -> None:
    plan = Plan(**{**BASE, **KINDS["ddp"]}, config=catalog.encode_config(QWEN))
    hostile = write(plan.model_copy(update={"model": name}), "")
    assert plan_in(hostile.text("train.py"))["model_name_or_path"] == name
    asked = {"DATASET": "/data/it's $(touch pwned).jsonl", "MODEL": "/data/$(touch pwned)"}
    run(unpack(hostile, tmp_path), **{**PATHS, **asked})
    assert not list(tmp_path.rglob("pwned"))


SMALL = {**QWEN, "vocab_size": 512, "eos_token_id": 0, "bos_token_id": None}
TINY: dict[str, Any] = {
    **{**BASE, "config": catalog.encode_config(SMALL), "gpus": 1},
    **{"sharding": "none", "prompts_per_step": 4, "micro_batch_size": 2, "steps": 2},
    **{"prompt_tokens": 48, "response_tokens": 33, "batch_shape": "full", "dtype": "fp32"},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dtype": "bf16", "master_dtype": "fp32", "gradient_checkpointing": "full"},
        {"dtype": "bf16", "finetuning": "lora", "lora_rank": 4},
    ],
    ids=["fp32", "autocast", "LoRA"],
)
def test_the_program_trains_and_takes_the_dry_runs_bytes(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    plan = Plan(**{**TINY, **changes})
    folder = unpack(write(plan, ""), tmp_path / "program")
    model, data = tmp_path / "model", tmp_path / "rows.jsonl"
    _made(model)
    row = {"prompt": "a" * plan.prompt_tokens, "response": "b" * (plan.response_tokens - 1)}
    data.write_text(f"{json.dumps(row)}\n" * 8)
    argv = ["--data", data, "--model", model, "--output", tmp_path / "out", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, TESTS / "launch" / "trainer_program.py", folder / "train.py", *argv],
        env=here(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Done:" in done.stdout and (tmp_path / "out").is_dir()
    found = json.loads(done.stdout.splitlines()[-1])
    config = json.loads((model / "config.json").read_text())
    dry = {
        peak.phase: peak.total_bytes
        for peak in curve.peaks(step.execute(plan, {"policy": config}, "cpu"))
    }
    # Ids and masks of the update that the loop has fetched, and the loss that is logged.
    assert found == pytest.approx(dry, rel=0.01)


def _made(folder: Path) -> None:
    """A Qwen2 of random weights and a tokenizer of bytes."""
    script = (
        "import sys; from pathlib import Path; from transformers import AutoConfig;"
        "from transformers import AutoModelForCausalLM as A;"
        "from launch.trl_programs import tiny_model;"
        "import json; folder = Path(sys.argv[1]); tiny_model(folder, hidden=64, layers=1);"
        "A.from_config(AutoConfig.for_model(**json.loads(sys.argv[2]))).save_pretrained(folder)"
    )
    config = json.dumps(SMALL)
    subprocess.run([sys.executable, "-c", script, str(folder), config], env=here(), check=True)
