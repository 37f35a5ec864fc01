"""Programs of our own read back: as they were written, as people change them, and as they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import pytest

from launch.test_programs import ALL, plan_in
from planner.frameworks.plain.importer import FLAGS, NO_EFFECT, takes
from planner.frameworks.plain.settings import program_of, settings
from planner.importer.given import Launch
from planner.importer.imported import Imported, imported
from planner.importer.rewriting import patch, rewritten
from planner.launch.export import export
from planner.plan import Plan, try_plan
from round_trips import again, differences, drawn, tried

SAID = {"gpus_per_node": 8}


def texts_of(plan: Plan, **more: Any) -> dict[str, str]:
    return {file.name: file.text for file in export(plan, "plain", **more).files}


def program(kind: str) -> str:
    """The text of a method's program."""
    plan = Plan(**ALL[kind])
    return texts_of(plan)[f"train_{plan.method}.py"]


def named(found: Imported, name: str) -> dict[str, Any]:
    return {one.name: one for one in getattr(found.reading, name)}


def test_a_plan_comes_back_from_its_export() -> None:
    for plan in drawn("plain", 100, seed=7):
        assert not tried(plan), plan


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("on", ["slurm", "ray"])
def test_whatever_starts_it_the_plan_is_the_same(kind: str, on: str) -> None:
    plan = Plan(**ALL[kind])
    assert imported(texts_of(plan, on=on)).reading.plan == imported(texts_of(plan)).reading.plan


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", ["", "mine.py"])
def test_a_program_pasted_by_itself_is_enough(kind: str, name: str) -> None:
    plan = Plan(**ALL[kind])
    found = imported({name: program(kind)})
    assert found.framework == "plain"
    assert not found.reading.unknown
    assert not found.reading.beyond
    assert not differences(plan, again(plan, found.reading))


@pytest.mark.parametrize("kind", ALL)
def test_a_value_is_what_python_makes_of_it(kind: str) -> None:
    text = program(kind)
    constants = plan_in(ast.parse(text))
    read = named(imported({"mine.py": text}), "understood")
    assert {name: one.value for name, one in read.items()} == constants
    places = {name: text[one.place.start : one.place.end] for name, one in read.items()}
    assert {name: ast.literal_eval(literal) for name, literal in places.items()} == constants


@pytest.mark.parametrize("kind", ALL)
def test_every_option_of_a_program_is_known(kind: str) -> None:
    method = Plan(**ALL[kind]).method
    found = program_of(method)
    assert found is not None
    rows = {row.name for row in settings(method)}
    options = re.findall(r'add_argument\(\s*"--([\w-]+)"', program(kind))
    assert len(options) > 9
    for name in (option.replace("-", "_") for option in options):
        assert name in (*FLAGS, *found.flags, *NO_EFFECT) or f"--{name}" in rows, name
    assert {*FLAGS, *found.flags} <= rows


def planned(texts: Mapping[str, str]) -> Plan:
    found = imported(texts, SAID)
    assert found.plan is not None, found
    assert not found.problems
    return found.plan


def changed(kind: str, **constants: str) -> Imported:
    """What is read of a method's program in which somebody wrote other constants."""
    text = program(kind)
    for name, after in constants.items():
        text, many = re.subn(f'"{name}": .*', f'"{name}": {after}' if after else "", text)
        assert many == 1
    return imported({"mine.py": text}, SAID)


def test_literals_that_somebody_changed() -> None:
    found = changed("grpo", micro_batch_size="2 * 2,  # more", steps="20,")
    assert found.plan is not None
    assert (found.plan.micro_batch_size, found.plan.steps) == (4, 20)
    last = '\nPLAN["steps"] = 30\n'
    assert planned({"a.py": program("grpo") + last}).steps == 30


def test_options_go_before_constants() -> None:
    texts = texts_of(Plan(**ALL["grade"]))
    options = "--steps 7 --model Qwen/Qwen3-4B --top-k=8 --no-reference-cache --kl none --tau 2"
    texts["launch.sh"] = texts["launch.sh"].replace('"$@"', options)
    found = imported(texts, SAID)
    assert found.plan is not None
    plan = found.plan
    assert (plan.steps, plan.model, plan.grade_top_k) == (7, "Qwen/Qwen3-4B", 8)
    assert (plan.grade_reference_cache, plan.grade_kl) == (False, "none")
    assert "tau" in named(found, "no_effect")


@pytest.mark.parametrize(("option", "kind"), [("--top-k 8", "grpo"), ("--engine vllm", "grade")])
def test_an_option_that_a_program_does_not_have_is_unknown(option: str, kind: str) -> None:
    texts = texts_of(Plan(**ALL[kind]))
    texts["launch.sh"] = texts["launch.sh"].replace('"$@"', option)
    assert option.split()[0].replace("-k", "_k") in named(imported(texts), "unknown")


@pytest.mark.parametrize(
    ("kind", "name", "after"),
    [
        ("sft", "stored_dtype", '"bf16"'),
        ("grpo", "stored_dtype", '"fp16"'),
        ("sft", "autocast", "False"),
        ("ppo", "critic_stored_dtype", '"fp16"'),
        ("sft", "attention", '"flex"'),
        ("sft", "micro_batch_size", "[1]"),
        ("dpo", "card", '"mine"'),
        ("lora", "lora_dropout", '"0.1"'),
    ],
)
def test_what_no_plan_has_is_said(kind: str, name: str, after: str) -> None:
    entry = named(changed(kind, **{name: f"{after},"}), "beyond")[name]
    assert entry.why.endswith(".")


def test_another_trainers_options_are_beyond() -> None:
    texts = texts_of(Plan(**ALL["grade"]))
    texts["launch.sh"] = texts["launch.sh"].replace('"$@"', "--method gumbel")
    assert "one by one" in named(imported(texts), "beyond")["--method"].why


@pytest.mark.parametrize(
    ("after", "value"),
    [('int(os.environ.get("SIZE", "2")),', 2), ("size_of(MODEL),", None), ("", None)],
)
def test_an_entry_that_is_no_literal_is_open(after: str, value: int | None) -> None:
    found = changed("grpo", micro_batch_size=after)
    (one,) = [each for each in found.reading.open if each.name == "micro_batch_size"]
    assert one.asked == (value is None)
    assert found.reading.plan.get("micro_batch_size") == value
    assert ("micro_batch_size" in found.asks) == one.asked


@pytest.mark.parametrize(
    "line",
    [
        "PLAN = json.load(open('plan.json'))",
        "PLAN.update(json.load(open('plan.json')))",
        "PLAN |= overrides",
        "del PLAN[name]",
        "for name in names:\n    PLAN[name] = 1",
        "if small:\n    PLAN.clear()",
    ],
)
def test_a_table_that_is_no_literal_any_more_is_open(line: str) -> None:
    text = program("grpo").replace("\nif __name__", f"\n{line}\n\nif __name__")
    found = imported({"train_grpo.py": text})
    assert found.framework == "plain"
    assert found.plan is None
    assert {"model", "micro_batch_size", "gpus"} <= {*found.asks}
    assert "are open. Write them as literals." in " ".join(found.notes)
    said = imported({"train_grpo.py": text + '\nPLAN["steps"] = 30\n'})
    assert said.reading.plan["steps"] == 30


def test_in_a_function_an_entry_may_be_another() -> None:
    text = program("grpo") + '\ndef less() -> None:\n    PLAN["steps"] = 30\n'
    found = imported({"train_grpo.py": text}, SAID)
    assert found.plan is not None
    assert "steps" in found.asks


def test_other_scripts_are_none_of_ours() -> None:
    texts = texts_of(Plan(**ALL["grpo"]))
    assert imported({"preflight.py": texts["preflight.py"]}).framework != "plain"
    assert not takes(Launch("train_grpo.py", ()), {})
    trl = "from trl import GRPOConfig\nPLAN = {'steps': 3}\na = GRPOConfig(output_dir='x')\n"
    assert imported({"train_grpo.py": trl}).framework == "trl"


def test_another_number_of_processes_is_said() -> None:
    texts = texts_of(Plan(method="sft", framework="plain", gpus=8, sharding="ddp"))
    texts["launch.sh"] = texts["launch.sh"].replace("per-node=8", "per-node=4")
    assert "as many processes" in named(imported(texts), "beyond")["nproc_per_node"].why


@pytest.mark.parametrize("kind", ALL)
def test_another_plan_changes_constants_and_nothing_else(kind: str) -> None:
    texts = texts_of(Plan(**ALL[kind]))
    found = imported(texts, SAID)
    assert found.plan is not None
    sizes = {"micro_batch_size": 2, "logprob_micro_batch_size": 2}
    changes = {**sizes, "attention": "eager", "steps": 9}
    after, problems = try_plan({**found.plan.model_dump(), **changes})
    assert after is not None, problems
    back = rewritten(found, after)
    assert back.plan == after
    assert back.notes == ()
    lines = [line for line in patch(found, back).splitlines() if re.match(r"[-+] ", line)]
    names = {line[1:].split(":")[0].strip(' "') for line in lines}
    assert {*changes} - {"logprob_micro_batch_size"} <= names
    assert all(name.startswith("predicted_") for name in names - {*changes})
    # A program that computes the reference first has the same constants.
    own = [plan_in(ast.parse(text)) for name, text in back.texts.items() if takes_part(name)]
    assert all(one == own[0] for one in own)
    assert len(own) == 1 + (kind in ("cached", "lora"))


def takes_part(name: str) -> bool:
    return name.startswith(("train_", "precompute_"))
