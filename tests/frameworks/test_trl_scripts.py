"""Python scripts around TRL's trainers, with and without the command that starts them."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from planner.frameworks.trl.importer import BY_TRAINER, OTHER_TRAINERS, trainers
from planner.importer.imported import Imported, imported

PARSED = """\
from trl import DPOConfig, DPOTrainer, ModelConfig, ScriptArguments, TrlParser

if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, DPOConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_and_config()
    trainer = DPOTrainer(model_args.model_name_or_path, args=training_args)
    trainer.train()
"""
OPTIONS = """\
import argparse
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen3-4B")
parser.add_argument("--group", type=int, default=4)
parser.add_argument("--rows", type=int, default=2)
args = parser.parse_args()
config = GRPOConfig(num_generations=args.group, per_device_train_batch_size=args.rows * 2)
GRPOTrainer(model=args.model, reward_funcs=score, args=config).train()
"""
COMMAND = "accelerate launch --num_processes 2 train.py"


def together(script: str, command: str = "") -> Imported:
    texts = {"train.py": script, **({"run.sh": command} if command else {})}
    return imported(texts, {"gpu": "h100-80gb", "steps": 10, "prompt_tokens": 128})


def test_a_script_that_is_told_all_by_its_command_asks_for_that() -> None:
    found = together(PARSED)
    assert found.framework == "trl" and found.understood and found.plan is None
    assert dict(found.reading.plan) == {"framework": "trl", "method": "dpo"}
    assert any("give that as well" in note for note in found.notes)
    assert found.reading.from_defaults == [] and "model" in found.asks
    by_hand = imported(found.texts, {"model": "Qwen/Qwen3-4B"})
    assert by_hand.plan is not None and [one[0] for one in by_hand.left_out] == ["DPOTrainer.args"]
    told = f"{COMMAND} --model_name_or_path Qwen/Qwen3-4B --per_device_train_batch_size 3"
    whole = together(PARSED, told)
    assert whole.plan is not None
    assert (whole.plan.model, whole.plan.micro_batch_size, whole.plan.gpus) == (
        "Qwen/Qwen3-4B", 3, 2,
    )


OWN_ARGUMENTS = """\
from dataclasses import dataclass, field
from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser

@dataclass
class OwnArguments(ScriptArguments):
    reward_funcs: list[str] | None = field(default=None)
    difficulty: int = field(default=3)

parser = TrlParser((OwnArguments, GRPOConfig, ModelConfig))
script_args, training_args, model_args = parser.parse_args_and_config()
GRPOTrainer(model=model_args.model_name_or_path, args=training_args).train()
"""


def test_a_default_of_nothing_is_no_setting() -> None:
    unknown = {one.name for one in together(OWN_ARGUMENTS).reading.unknown}
    assert "difficulty" in unknown and "reward_funcs" not in unknown


def test_options_are_their_defaults_until_the_command_says_them() -> None:
    alone = together(OPTIONS)
    opened = {field for one in alone.reading.open for field in one.fields}
    assert {"model", "responses_per_prompt", "micro_batch_size", "gpus"} <= opened
    plan = alone.reading.plan
    assert (plan["model"], plan["responses_per_prompt"]) == ("Qwen/Qwen3-4B", 4)
    assert (plan["micro_batch_size"], plan["gpus"]) == (4, 1)
    said = together(OPTIONS, f"{COMMAND} --model Qwen/Qwen3-8B --group 8").reading
    assert (said.plan["model"], said.plan["responses_per_prompt"]) == ("Qwen/Qwen3-8B", 8)
    assert said.unknown == [] and not any("gpus" in one.fields for one in said.open)
    # What is calculated from an option is asked for: nothing is run.
    rows = together(OPTIONS, f"{COMMAND} --rows 8").reading
    (asked,) = [one for one in rows.open if "micro_batch_size" in one.fields]
    assert asked.asked


def test_a_mapping_that_is_not_written_out_makes_the_plan_incomplete() -> None:
    script = OPTIONS.replace("(num_generations", "(**load(args), num_generations")
    assert [one[0] for one in together(script).left_out] == ["**"]


@pytest.mark.parametrize(
    ("argument", "left_out"),
    [
        ("tools=[search]", "trainer.tools"),
        ("environment_factory=Room", "trainer.environment_factory"),
        ("tools=None", ""),
        ("callbacks=[told]", ""),
    ],
)
def test_what_a_trainer_is_given_beside_its_settings(argument: str, left_out: str) -> None:
    found = together(OPTIONS.replace("args=config", f"args=config, {argument}"))
    assert [name for name, _, _ in found.left_out] == ([left_out] if left_out else [])


def test_a_switch_of_the_scripts_own_is_what_its_command_says() -> None:
    script = OPTIONS.replace(
        "args = parser",
        'parser.add_argument("--small", action="store_true")\n'
        'parser.add_argument("--large", action="store_true")\nargs = parser',
    ).replace(
        "GRPOTrainer(",
        "if args.small:\n    config.max_completion_length = 9\n"
        "if args.large:\n    config.beta = 0.5\nGRPOTrainer(",
    )
    said = together(script, f"{COMMAND} --small").reading
    assert said.plan["response_tokens"] == 9 and said.plan["kl"] == "none"
    assert any(one.asked for one in said.open if one.name == "beta")
    assert said.unknown == []
    named = script.replace("num_generations=args.group", 'run_name=f"{args.small}-1"')
    assert together(named, f"{COMMAND} --small").reading.plan["response_tokens"] == 9


def test_adapters_behind_trls_own_switch_are_there_where_a_flag_says_so() -> None:
    script = PARSED.replace(
        "    trainer = DPOTrainer(",
        "    adapters = LoraConfig(r=4) if model_args.use_peft else None\n"
        "    if model_args.use_peft:\n        adapters = LoraConfig(r=4)\n"
        "    trainer = DPOTrainer(",
    )
    told = f"{COMMAND} --model_name_or_path Qwen/Qwen3-4B --beta 0.2"
    assert together(script, told).reading.plan["finetuning"] == "full"
    plan = together(script, f"{told} --use_peft").reading.plan
    assert (plan["finetuning"], plan["lora_rank"]) == ("lora", 4)


def test_a_trainer_of_the_scripts_own_is_named() -> None:
    own = "class Mine(GRPOTrainer):\n    pass\n"
    script = OPTIONS.replace("parser = ", f"{own}parser = ", 1).replace("GRPOTrainer(m", "Mine(m")
    assert script.count("Mine(") == 2
    found = together(script)
    assert found.reading.plan["method"] == "grpo"
    assert [(name, text) for name, text, _ in found.left_out] == [("trainer.class", "Mine")]


def test_a_reward_model_is_one_by_its_name() -> None:
    reading = together(OPTIONS.replace("=score", '="Qwen/Qwen3-0.6B"')).reading
    assert (reading.plan["reward"], reading.plan["reward_model"]) == ("model", "Qwen/Qwen3-0.6B")


def test_trainers_that_are_not_planned_are_recognised() -> None:
    found = together("from trl.experimental.cpo import *\nCPOTrainer(m, args=CPOConfig(beta=1))\n")
    assert found.framework == "trl" and found.plan is None
    assert found.notes == ("CPOTrainer is not planned: its settings are listed as they stand.",)
    assert [one.value for one in found.reading.unknown if one.name == "CPOConfig.beta"] == [1]


def test_every_trainer_of_the_package_is_known() -> None:
    spec = importlib.util.find_spec("trl")
    assert spec and spec.origin
    named = set()
    arguments = set()
    for path in Path(spec.origin).parent.rglob("*_trainer.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Trainer"):
                named.add(node.name)
                arguments |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    named.discard("_BaseTrainer")
    assert len(named) > 15
    assert {one for one in named if not OTHER_TRAINERS.fullmatch(one)} == trainers()
    ours = {name.removeprefix("trainer.") for name in BY_TRAINER} - {"class"}
    assert ours <= arguments
