"""TRL's, transformers' and accelerate's settings: every one is a row or moves nothing.

The packages themselves are asked, so a new version's new setting fails here. What their parsers
make of an export is what our rows make of it.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from accuracy.deepspeed_settings import left_out
from frameworks.drawn_plans import drawn
from frameworks.exported import givens, launched
from launch.running import Worker, read_by_trl
from planner.frameworks.trl.importer import imported
from planner.frameworks.trl.packaged import ALL, PACKAGED
from planner.frameworks.trl.settings import all_settings, no_effect, training_settings
from planner.frameworks.trl.trainers.grpo import VARIATIONS
from planner.importer.given import Launch, Word
from planner.importer.huggingface.sharing import DEEPSPEED, KINDS
from planner.importer.kinds import typed
from planner.launch.export import export
from planner.launch.huggingface import accelerate, training
from planner.launch.huggingface.adapters import PEFTS_OWN
from planner.plan import FIELDS
from planner.values.setting import Setting

METHODS = ("grpo", "rloo", "sft", "dpo")


@pytest.fixture(scope="module")
def names(trl: Worker) -> dict[str, Any]:
    reply = trl.ask({"kind": "names"})
    assert "error" not in reply, reply
    return reply


@pytest.mark.parametrize("method", METHODS)
def test_every_argument_of_a_script_is_a_row_or_moves_nothing(
    names: dict[str, Any], method: str
) -> None:
    taken = names["scripts"][method]
    rows = {row.name: row for row in training_settings(method)}
    assert taken.keys() - rows.keys() - {*no_effect()} == set()
    assert rows.keys() - taken.keys() == set()
    for name, row in rows.items():
        if name != "report_to":  # a list in the class, and one of no effect
            assert row.default == taken[name], name


def test_every_training_argument_is_a_row_or_moves_nothing(names: dict[str, Any]) -> None:
    taken = names["trainer"]
    rows = {row.name: row for row in training.TRAINING}
    assert taken.keys() - rows.keys() - {*no_effect()} == set()
    # The model is loaded by the scripts, and not by the arguments' class.
    loaded = {"model_name_or_path", "dtype", "attn_implementation"}
    assert rows.keys() - taken.keys() == loaded
    for name in rows.keys() - loaded:
        assert rows[name].default == taken[name], name


def test_accelerates_file_and_flags_are_rows_or_move_nothing(names: dict[str, Any]) -> None:
    rows = {row.name.rpartition(".")[2]: row for row in accelerate.ROWS}
    nothing = {name.removeprefix("accelerate.").rpartition(".")[2] for name in no_effect()}
    sections = {name for name in names["file"] if name.endswith("_config")}
    elsewhere = {*DEEPSPEED, *KINDS, "cpu", "use_cpu"}
    whole = ("megatron_lm_", "fp8_")  # rows of their sections
    left = (names["flags"].keys() | names["file"].keys()) - rows.keys() - nothing - elsewhere
    assert {name for name in left - sections if not name.startswith(whole)} == set()
    for name in rows.keys() & names["flags"].keys():
        default = names["flags"][name]
        row = rows[name]
        if row.fields and default is not None:
            assert typed(default, row.default) == row.default, name


PACKAGE = {
    "runtime/config.py": """
MEMORY_PLAN = "memory_plan"
def get(param_dict):
    if "zeal" in param_dict.keys():
        pass
    return get_scalar_param(param_dict, MEMORY_PLAN, None), param_dict.get("steps_per_print")
""",
    "runtime/zero/config.py": """
class DeepSpeedZeroConfig(DeepSpeedConfigModel):
    stage: int = 0
    sub_group_size: int = Field(1)
    deeper: int = Field(0, alias="stage3_deeper")
""",
    "runtime/zero/offload_config.py": "",
    "runtime/precision_config.py": "",
}


def test_deepspeeds_source_is_asked_for_its_keys(tmp_path: Path) -> None:
    """Of a package of our own: DeepSpeed is none of our requirements, and the command reads it."""
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert left_out(tmp_path) == ["memory_plan", "zeal", "zero_optimization.stage3_deeper"]


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_whole(method: str) -> None:
    for row in all_settings(method):
        assert row.fields or row.otherwise or row.write, row.name
        assert set(row.fields) <= {*FIELDS}, row.name
        assert len({one.name for one in all_settings(method)}) == len(all_settings(method))


LINE = re.compile(r"(transformers|trl|accelerate) [\d.]+, (.+), line (\d+)")


def test_a_row_names_the_line_that_it_was_read_from() -> None:
    seen = 0
    for row in {row.name: row for method in METHODS for row in all_settings(method)}.values():
        if found := LINE.fullmatch(row.source):
            spec = find_spec(found[1])
            assert spec is not None and spec.origin is not None
            lines = (Path(spec.origin).parent / found[2]).read_text("utf-8").splitlines()
            own = row.name.rpartition(".")[2]
            assert own in lines[int(found[3]) - 1], row.source
            seen += 1
    assert seen > 150


AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ({}, {}),
        ({"fp16": True}, {}),
        ({"bf16": False}, {}),
        ({"bf16": False}, {"bf16": {"enabled": False}}),
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}, {}),
        ({"per_device_train_batch_size": 4}, {"train_micro_batch_size_per_gpu": 2}),
        ({"gradient_accumulation_steps": 2}, {"train_batch_size": 64}),
        ({"gradient_accumulation_steps": 2}, {"gradient_accumulation_steps": 4}),
    ],
)
def test_auto_is_what_transformers_puts_there(
    trl: Worker, arguments: dict[str, Any], changes: dict[str, Any]
) -> None:
    config = {**AUTO, **changes}
    theirs = trl.ask(
        {"kind": "deepspeed", "config": config, "arguments": arguments, "processes": 4}
    )
    assert "error" not in theirs, theirs
    told = {"c.yaml": givens({**arguments, "dtype": "bfloat16"}), "ds.json": givens(config)}
    words = tuple(Word(text) for text in ("--config", "c.yaml", "--deepspeed", "ds.json"))
    torchrun = (("torchrun", (Word("--nproc_per_node=4"),)),)
    reading = imported(Launch("trl.scripts.sft", words, torchrun), told)
    stops = [entry for entry in reading.beyond if "transformers stops" in entry.why]
    assert len(stops) == len(theirs["mismatches"])
    made = theirs["config"]
    if not stops:
        assert made["train_micro_batch_size_per_gpu"] == reading.plan["micro_batch_size"]
        assert made["train_batch_size"] == reading.plan["prompts_per_update"]
    half = [name for name in ("bf16", "fp16") if made[name]["enabled"]]
    if half == ["fp16"]:  # weights in bf16 below it have no plan
        assert any("under fp16" in entry.why for entry in reading.beyond)
    else:
        assert reading.plan["master_dtype"] == ("fp32" if half else "none")
        assert reading.plan["dtype"] == "bf16"


def test_variations_say_what_rows_have() -> None:
    rows = {row.name for row in training_settings("grpo")}
    assert {name for told in VARIATIONS.values() for name in told} <= rows


def test_what_trl_packages_for_accelerate() -> None:
    spec = find_spec("trl")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "accelerate_configs"
    assert {file.stem for file in folder.glob("*.yaml")} == PACKAGED.keys()
    nothing = {name.rpartition(".")[2] for name in no_effect()} | {"use_cpu", "downcast_bf16"}
    for file in folder.glob("*.yaml"):
        values = yaml.safe_load(file.read_text("utf-8"))
        kept = {name: value for name, value in values.items() if name not in nothing}
        if "deepspeed_config" in kept:
            kept["deepspeed_config"].pop("deepspeed_multinode_launcher")
        assert kept == {**ALL, **PACKAGED[file.stem]}, file.stem


def test_what_peft_adapts_by_itself() -> None:
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as OWN

    for kind, targets in PEFTS_OWN.items():
        assert targets == ",".join(OWN[kind]), kind


MADE = {
    # What the classes' __post_init__ makes of what they are told, and what the worker adds.
    *("use_cpu", "report_to", "activation_checkpointing", "bf16", "generation_batch_size"),
    *("debug", "accelerator_config", "pad_to_multiple_of", "dataloader_pin_memory"),
}


def test_the_parsers_make_of_an_export_what_the_rows_make(trl: Worker, tmp_path: Path) -> None:
    """Row by row: TrlParser's values, and those that ``accelerate launch`` has."""
    seen: set[str] = set()
    for number, plan in enumerate(drawn("trl", 30, seed=7)):
        folder = tmp_path / str(number)
        reply = read_by_trl(trl, folder, export(plan, "trl"), plan)
        assert "error" not in reply, reply
        reading = imported(*launched(folder, plan))
        ours = {row.name: row.default for row in all_settings(plan.method)}
        told = [*reading.understood, *reading.beyond, *reading.from_defaults]
        ours |= {entry.name: entry.value for entry in told}
        for row in training_settings(plan.method):
            if row.name not in MADE:
                theirs = reply["values"][row.name]
                assert _plain(theirs) == _plain(ours[row.name]), (row.name, plan)
        for row in accelerate.ROWS:
            name = row.name.rpartition(".")[2]
            if row.fields and name in reply["accelerate"]:
                theirs = reply["accelerate"][name]
                assert _same(theirs, ours[row.name], row), (row.name, theirs, ours[row.name])
                seen.add(name)
        assert reply["values"]["bf16"] == (ours["bf16"] in (True, None))
    assert {"num_processes", "fsdp_version", "fsdp_offload_params", "mixed_precision"} <= seen


@pytest.mark.parametrize(
    "line",
    [
        "--per-device-train-batch-size=2 --num_generations 4",
        "--no_gradient_checkpointing --use_vllm --fp16",
        "--reward_funcs a.b c.d --max_compl 77 --beta=0.1",
        "--use_peft --lora_target_modules q_proj k_proj --lora-r 8 --bf16 no",
        "--max_steps -1 --epsilon_high 0.3 --save_strategy no --report_to none",
    ],
)
def test_flags_are_taken_apart_as_the_parser_does(
    trl: Worker, tmp_path: Path, line: str
) -> None:
    (tmp_path / "accelerate.yaml").write_text("distributed_type: MULTI_GPU\nnum_processes: 4\n")
    words = ["--output_dir", "out", *line.split()]
    asked = {"arguments": words, "program": "", "launcher": [], "folder": str(tmp_path)}
    reply = trl.ask({**asked, "method": "grpo", "processes": 4})
    assert "error" not in reply, reply
    launch = Launch(
        "trl.scripts.grpo",
        tuple(map(Word, words)),
        (("torchrun", (Word("--nproc_per_node=4"),)),),
    )
    reading = imported(launch)
    assert reading.unknown == []
    told = [one for one in (*reading.understood, *reading.beyond) if one.name[:10] != "accelerate"]
    assert len(told) >= 2
    for one in told:
        if one.name not in MADE:
            assert _plain(reply["values"][one.name]) == _plain(one.value), one.name


def _plain(value: Any) -> Any:
    """A list of one is its only text, as ``ModelConfig`` makes it; enums come as their values."""
    if isinstance(value, list) and len(value) == 1:
        return _plain(value[0])
    return value.rpartition(".")[2].lower() if isinstance(value, str) else value


def _same(theirs: Any, ours: Any, row: Setting) -> bool:
    if theirs is None or ours is None:
        # Where nobody said: "no" for a precision and a backend, all of a machine for processes.
        return {theirs, ours} <= {None, "no"} or theirs == ours
    return str(theirs).lower() == str(ours).lower()
