"""Intuitor on TRL: the program around its trainer, run as it is exported."""

import ast
import random
from pathlib import Path
from typing import Any

import pytest

from accuracy.cpu_runs import dry_peaks
from launch.running import COMMON, PATHS, Tiny, Worker, read_by_trl, run, unpack
from planner.dryrun.ask.request import configs_of
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate
from planner.formulas.logits import tiles
from planner.launch.export import export, fitted, why_not
from planner.launch.launch import CannotExpress
from planner.plan import Plan

SIZES: dict[str, Any] = {
    "framework": "trl",
    "method": "intuitor",
    "gpus": 1,
    "dtype": "fp32",
    "prompts_per_step": 2,
    "responses_per_prompt": 2,
    "micro_batch_size": 2,
    "prompt_tokens": 48,
    "response_tokens": 24,
    "rollout": "hf",
    "batch_shape": "padded",
    "steps": 2,
    "gradient_checkpointing": "none",
}


PASSES = ["old log-probs", "reference log-probs"]


def _exported(folder: Path, **fields: Any) -> Path:
    return unpack(export(Plan(**{**SIZES, **fields}), "trl"), folder) / "intuitor.py"


@pytest.mark.parametrize("fields", [{}, {"finetuning": "lora", "lora_targets": "q_proj,v_proj"}])
def test_two_steps_allocate_what_the_dry_run_says(
    trl: Worker,
    qwen: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
) -> None:
    program = _exported(tmp_path, **fields)
    found = trl.ask(qwen.asked(program, "run", watch=PASSES))
    assert "error" not in found, found
    assert found["ended"] == "" and "Here: cpu." in found["words"]
    (log,) = found["logs"]
    assert 0 < float(log["rewards/self_certainty/mean"]) < 10
    assert float(log["rewards/self_certainty/std"]) > 0
    assert len(found["prompts"]) == 2  # a rollout each step
    assert (tmp_path / "out" / ("adapter_" * bool(fields) + "model.safetensors")).exists()

    # As small as TRL's are made there; the plain step has no kernel, and widens a row at a time.
    monkeypatch.setattr(tiles, "VOCABULARY_TILE", 512)
    monkeypatch.setattr(tiles, "FP32_ROWS", 1)
    plan = Plan(**{**SIZES, **fields, "model": "tiny/it", "config": qwen.config})
    dry = dry_peaks(stand_in(plan).plan, configs_of(plan))
    assert set(found["peaks"]) == set(dry) - {"load", "weight sync", "checkpoint", "validation"}
    apart = {name: dry[name] / live - 1 for name, live in found["peaks"].items()}
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}


def test_self_certainty_is_exact_and_padding_changes_nothing(
    trl: Worker, qwen: Tiny, tmp_path: Path
) -> None:
    letters = random.Random(1)
    prompt, response = ([letters.randrange(3, 250) for _ in range(n)] for n in (9, 6))
    program = _exported(tmp_path)
    found = trl.ask(qwen.asked(program, "score", prompt=prompt, response=response))
    assert "error" not in found, found
    exact = found["by_hand"]  # in 64 bits, from the logits
    for given in (found["alone"], found["padded"]):
        assert given["tokens"][:6] == pytest.approx(exact, abs=2e-6)
        assert not any(given["tokens"][6:])
        assert given["reward"] == pytest.approx(sum(exact) / 6, abs=2e-6)
        assert given["log_probs"][:6] == pytest.approx(found["log_probs_by_hand"], abs=2e-6)
    assert max(exact) - min(exact) > 1e-4  # or else anything would pass


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"finetuning": "qlora"},
        {"rollout": "vllm-separate", "gpus": 4, "rollout_gpus": 2, "rollout_tensor_parallel": 2},
        {"gpus": 8, "entropy": True, "kl": "none"},
    ],
)
def test_trl_reads_the_settings(trl: Worker, tmp_path: Path, fields: dict[str, Any]) -> None:
    plan = fitted(Plan(framework="trl", method="intuitor", prompts_per_step=48, **fields), "trl")
    assert plan.self_certainty == "fused"
    reply = read_by_trl(trl, tmp_path, export(plan, "trl"), plan)
    assert "error" not in reply, reply
    values = reply["values"]
    assert values["num_generations"] == plan.responses_per_prompt == 8
    assert values["beta"] == (0.0 if plan.kl == "none" else 0.001)
    assert values["use_vllm"] is True
    assert reply["accelerate"]["num_processes"] == plan.gpus - plan.rollout_gpus


def test_the_program_is_plain_python_with_the_plan_as_literals() -> None:
    launch = export(Plan(**SIZES), "trl", link="https://headroom.example/?v=1")
    names = {file.name for file in launch.files}
    assert names == {"launch.sh", "intuitor.py", "accelerate.yaml", *COMMON}
    text = launch.text("intuitor.py")
    tree = ast.parse(text)
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert "planner" not in imported
    (plan,) = (node for node in tree.body if isinstance(node, ast.AnnAssign))
    assert plan.value is not None
    values = ast.literal_eval(plan.value)
    assert values["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert values["max_completion_length"] == 24 and values["trl_version"] == "1.16.0"
    lines = text.splitlines()
    for name in ("dtype", "per_device_train_batch_size", "gradient_checkpointing", "beta"):
        place = next(n for n, line in enumerate(lines) if line.startswith(f'    "{name}": '))
        assert lines[place - 1].startswith("    # "), name
    assert "trl==1.16.0" in launch.text("requirements.txt").splitlines()


def test_hostile_variables_arrive_as_they_are(tmp_path: Path) -> None:
    folder = unpack(export(Plan(**SIZES), "trl"), tmp_path)
    name = "a b'c\"d $(touch pwned) `touch pwned`; touch pwned #\n--x \\ é*"
    words = run(folder, **{**PATHS, "DATASET": name, "OUTPUT_DIR": "/tmp/o $(x)/y"})[-1]
    assert words[words.index("--dataset") + 1] == name
    assert words[words.index("--output") + 1] == "/tmp/o $(x)/y"
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("name", ['x/y", os.system("touch pwned")) #', "a/b\n--c", "../secret"])
def test_names_that_are_no_hub_id_are_refused(name: str) -> None:
    with pytest.raises(CannotExpress) as refused:
        export(Plan(**SIZES).model_copy(update={"model": name}), "trl")
    assert "model" in refused.value.fields


@pytest.mark.parametrize(
    ("fields", "named", "change"),
    [
        ({"gpus": 16, "gpus_per_node": 8, "rollout": "vllm-colocated"}, "gpus", 8),
        ({"eval_steps": 20, "validation_responses": 64}, "eval_steps", 0),
        ({"self_certainty": "full"}, "self_certainty", "fused"),
        ({"self_certainty": "chunked-vocabulary"}, "self_certainty", "fused"),
    ],
)
def test_what_the_program_cannot_do_is_named(
    fields: dict[str, Any], named: str, change: object
) -> None:
    plan = Plan(**{**SIZES, "prompts_per_step": 16, **fields})
    with pytest.raises(CannotExpress) as refused:
        export(plan, "trl")
    assert named in refused.value.fields and refused.value.changes[named] == change
    assert why_not(fitted(plan, "trl"), "trl") == ()


UPDATES = {"prompts_per_update": 1, "micro_batch_size": 1, "logprob_micro_batch_size": 2}
"""Two updates a step, so that TRL has a pass of old log-probs."""


def test_the_fused_head_is_gone_through_once() -> None:
    """GRPO's pass of old log-probs, and self-certainty kept: no time, and 4 bytes a token, of
    this step's rows and of those of the step before."""
    forms = ({}, {"method": "grpo", "kl": "loss"}, {"self_certainty": "chunked-vocabulary"})
    fused, grpo, sliced = (
        next(phase for phase in found.phases if phase.name == "old log-probs")
        for found in (estimate(Plan(**{**SIZES, **UPDATES, **form})) for form in forms)
    )
    assert fused.seconds == grpo.seconds and fused.seconds != sliced.seconds
    # 24 tokens of four responses are kept; a layer peaks here, not the head.
    assert fused.requested_bytes - grpo.requested_bytes == 2 * 4 * (4 * 24)


def test_another_version_of_trl_is_refused(
    trl: Worker, qwen: Tiny, tmp_path: Path
) -> None:
    program = _exported(tmp_path)
    program.write_text(program.read_text().replace('"1.16.0"', '"1.17.0"'))
    found = trl.ask(qwen.asked(program, "run"))
    assert "1.16.0 is installed" in found["ended"] and not found["logs"]
