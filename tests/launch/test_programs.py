"""Programs of our own as text: they stand alone, hold literals, and are refused where they end."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launch.running import COMMON, run, unpack
from launch.tiny_models import config
from planner import catalog
from planner.__main__ import main
from planner.frameworks.plain.exporter import write
from planner.launch.export import export, fitted, following, obstacles, why_not
from planner.launch.launch import CannotExpress, Launch
from planner.launch.program import literal
from planner.launch.templates import Decision
from planner.plan import Plan
from planner.plan.plan import choices

GRADE: dict[str, Any] = {"method": "grade", "gpus": 1, "grade_kl": "online"}
DPO: dict[str, Any] = {"method": "dpo", "gpus": 1}
CACHED = {**DPO, "reference": "cached-activations"}
KINDS = {"grade": GRADE, "dpo": DPO, "cached": CACHED, "lora": {**CACHED, "finetuning": "lora"}}
ONLINE: dict[str, Any] = {"framework": "plain", "gpus": 1, "rollout": "hf"}
ALL = KINDS | {method: {**ONLINE, "method": method} for method in ("grpo", "intuitor", "ppo")}
ALL["sft"] = {"method": "sft", "framework": "plain", "gpus": 1}
SHARED = COMMON | {"reward.py"}
COMES_WITH = {"safetensors": "transformers"}
"""A package that another one requires."""


def trees(launch: Launch) -> dict[str, ast.Module]:
    own = (f for f in launch.files if f.name.endswith(".py") and f.name not in SHARED)
    return {f.name: ast.parse(f.text) for f in own}


def plan_in(tree: ast.Module) -> dict[str, Any]:
    (found,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "PLAN"
    ]
    assert found is not None
    values: dict[str, Any] = ast.literal_eval(found)
    return values


@pytest.mark.parametrize("kind", ALL)
def test_a_program_stands_alone_and_its_requirements_name_what_it_imports(kind: str) -> None:
    launch = export(Plan(**ALL[kind]), "plain")
    required = {line.split("==")[0] for line in launch.text("requirements.txt").split()}
    assert all("==" in line for line in launch.text("requirements.txt").split())
    for name, tree in trees(launch).items():
        assert "planner" not in launch.text(name)
        for node in ast.walk(tree):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for package in {module.split(".")[0] for module in modules}:
                known = package in sys.stdlib_module_names
                assert known or COMES_WITH.get(package, package) in required, (name, package)
        defined = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        assert len(defined) == len(set(defined)) and "main" in defined


@pytest.mark.parametrize("kind", ALL)
def test_what_is_exported_passes_the_linter(kind: str, tmp_path: Path) -> None:
    folder = unpack(export(Plan(**ALL[kind]), "plain"), tmp_path)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "100"]
    done = subprocess.run(
        [*command, "--select", "E,F,B,UP,SIM", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    subprocess.run(["bash", "-n", str(folder / "launch.sh")], check=True)


HOSTILE = [
    "a/b'); import os; os.system('touch pwned') #",
    'a/b"""\nimport os\n"""',
    "a/b\\",
    "a/{PLAN}{0}%s",
    "a/b\nimport os\r\x85\u2028x = 1",
    "a/$(touch pwned)`touch pwned`",
    "a/\u202e\0",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", ["grade", "cached"])
def test_a_hostile_name_can_only_be_a_string(kind: str, name: str, tmp_path: Path) -> None:
    # Its config comes along, so that there are facts to write whatever the name is.
    plan = Plan(**KINDS[kind], config=catalog.encode_config(config()))
    named = plan.model_copy(update={"model": name})
    with pytest.raises(CannotExpress, match="other characters"):
        export(named, "plain")
    # Even unrefused it changes nothing of a program but that literal.
    hostile, benign = write(named, ""), write(plan, "")
    for file, tree in trees(hostile).items():
        values, usual = plan_in(tree), plan_in(trees(benign)[file])
        assert values.pop("model") == name and usual.pop("model") == plan.model
        values.pop("reward_model", None), usual.pop("reward_model", None)
        assert values == usual and hostile.text(file).isascii() == benign.text(file).isascii()
        assert _without_plan(tree) == _without_plan(trees(benign)[file])
    variables = {"DATASET": "/data/it's $(touch pwned).jsonl", "OUTPUT_DIR": "/out dir"}
    variables["MODEL"] = "/models/$(touch pwned)'s"
    words = run(unpack(hostile, tmp_path), **variables)
    assert words == [
        [
            *("python3", file, "--model", variables["MODEL"]),
            *("--data", variables["DATASET"], "--output", "/out dir"),
        ]
        for file in trees(benign)
    ]
    assert not list(tmp_path.rglob("pwned"))


def _without_plan(tree: ast.Module) -> str:
    kept = [
        node
        for node in tree.body
        if not (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "PLAN")
    ]
    return ast.dump(ast.Module(kept, []))


@pytest.mark.parametrize("value", [*HOSTILE, ["a", 'b"', "c'"], 7, 1.5, True, None, "it's", ""])
def test_a_decision_reads_back_as_it_was(value: object) -> None:
    text = literal([Decision(name="x", value=value, why="Why\nnot. " * 40)])
    assert ast.literal_eval(text) == {"x": value}
    assert text.isascii() and max(map(len, text.splitlines())) <= 100 + len(ascii(value))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reason_stands_beside_each_memory_decision(kind: str) -> None:
    launch = export(Plan(**KINDS[kind]), "plain")
    for name in trees(launch):
        lines = launch.text(name).split("PLAN: ")[1].split("\n}\n")[0].splitlines()
        for decision in (
            *("gradient_checkpointing", "optimizer", "micro_batch_size", "finetuning"),
            *("attention", "reference", "dtype", "stored_dtype", "batch_shape"),
            *(("step_checkpointing", "top_k", "kl", "reward_input") if kind == "grade" else ()),
        ):
            (place,) = [n for n, line in enumerate(lines) if line.startswith(f'    "{decision}":')]
            assert lines[place - 1].startswith("    # "), decision


@pytest.mark.parametrize(
    ("plan", "changes", "field", "said"),
    [
        (GRADE, {"gpus": 16, "sharding": "ddp"}, "gpus", "Set gpus to 8"),
        (GRADE, {"gpus": 4, "gpus_per_node": 1, "sharding": "ddp"}, "gpus", "sharding to none"),
        (GRADE, {"optimizer": "adamw-8bit"}, "optimizer", "PyTorch's own"),
        (GRADE, {"offload": "optimizer-between-phases"}, "offload", "on the GPU"),
        (DPO, {"gpus": 8, "sharding": "fsdp2"}, "sharding", "Set sharding to ddp"),
        (DPO, {"compile": True}, "compile", "not compile its layers"),
        (DPO, {"liger": True}, "liger", "own kernels"),
        (DPO, {"logits": "fused"}, "logits", "Set logits to response or full"),
        (DPO, {"batch_shape": "packed"}, "batch_shape", "one sequence in each row"),
        (DPO, {"activation_offload": True}, "activation_offload", "keeps activations"),
        (DPO, {"finetuning": "qlora"}, "finetuning", "4-bit"),
        (DPO, {"finetuning": "lora", "reference": "dual-output"}, "reference", "one after"),
        (DPO, {"max_tokens_per_micro_batch": 99999}, "max_tokens_per_micro_batch", "rows"),
    ],
)
def test_what_a_program_does_not_do_is_named_with_the_fix(
    plan: dict[str, Any], changes: dict[str, Any], field: str, said: str
) -> None:
    asked = Plan(**{**plan, **changes})
    found = {each.field: each.sentence for each in obstacles(asked, "plain")}
    assert said in found[field], found
    assert export(fitted(asked, "plain"), "plain").framework == "plain"


@pytest.mark.parametrize("reference", ["cached-logprobs", "cached-activations"])
def test_sampled_responses_have_nothing_to_compute_before_training(reference: str) -> None:
    plan = Plan(method="grpo", kl="loss", reference=reference, gpus=1)
    found = {each.field: each for each in obstacles(plan, "plain")}
    assert "new in each step" in found["reference"].why
    assert found["reference"].changes == (("reference", "copy"),)
    assert "Export it to TRL or verl, or set" in found["method"].fix


def test_only_a_cached_reference_has_a_program_before_the_training() -> None:
    names = {kind: [*trees(export(Plan(**fields), "plain"))] for kind, fields in KINDS.items()}
    both = ["precompute_reference.py", "train_dpo.py"]
    assert names == {
        "grade": ["train_grade.py"], "dpo": ["train_dpo.py"], "cached": both, "lora": both
    }


def test_a_method_without_exporter_elsewhere_names_the_program() -> None:
    for framework in ("trl", "verl"):
        assert "Export it to Plain PyTorch." in why_not(Plan(**GRADE), framework)[0]
    assert "Export it to Plain PyTorch or TRL." in why_not(Plan(**DPO), "verl")[0]
    followed = following(Plan(method="dpo", sharding="fsdp2"), "plain", {"method"})
    assert (followed.gpus, followed.sharding) == (8, "ddp")


def test_each_value_of_a_switch_has_its_flag() -> None:
    text = export(Plan(**GRADE), "plain").text("train_grade.py")
    for field in ("grade_kl", "grade_estimator", "grade_reward_input"):
        for value in choices(field):
            assert f'"{value}"' in text
    for alias in ("gumbel", "ste", "gumbel_legacy", "ste_legacy"):
        assert f'"{alias}":' in text


def test_the_preflight_compares_card_and_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from planner.launch.pieces.preflight import check_card

    gib = 2**30
    card = SimpleNamespace(name="Small")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    plan = plan_in(trees(export(Plan(**GRADE), "plain"))["train_grade.py"])
    assert plan["predicted_device_bytes"] > plan["predicted_reserved_bytes"] > 0
    cuda, needed = torch.device("cuda"), plan["predicted_reserved_bytes"]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (needed, 80 * gib))
    check_card(plan, cuda, anyway=False)
    said = capsys.readouterr().out
    assert plan["card"] in said and "Here: Small, 80.0 GiB" in said
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (needed - gib, 24 * gib))
    with pytest.raises(SystemExit, match=r"1\.0 GiB are missing\. Nothing was loaded"):
        check_card(plan, cuda, anyway=False)
    check_card(plan, cuda, anyway=True)
    assert "Going on" in capsys.readouterr().out


def test_the_command_writes_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    query = "method=grade&gpus=1&grade_kl=online"
    assert main(["launch", query, "--framework", "plain", "--out", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {
        *("launch.sh", "train_grade.py"),
        *COMMON,
    }
    assert (folder / "launch.sh").stat().st_mode & 0o111
