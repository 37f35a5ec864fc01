"""Python scripts as syntax trees: values against what the same text makes when it is run."""

from __future__ import annotations

from typing import Any

import pytest

from planner.importer.edited import Addition, Change, edited
from planner.importer.given import Call, UnreadableError
from planner.importer.python_text import read_python

SCRIPT = """\
import os
import torch
from trl import GRPOConfig, GRPOTrainer

MODEL = "Qwen/Qwen2.5-7B"
SIZE, STEPS = 4, 100
BATCH = SIZE * 2
BATCH += 1
name = f"{MODEL}-{SIZE}"

def build(beta=0.04):
    rank = 16
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj"], beta=beta)

args = GRPOConfig(
    output_dir='out/it',  # where
    learning_rate=1e-6,
    per_device_train_batch_size=BATCH,
    num_generations=SIZE,
    gradient_accumulation_steps=64 // BATCH,
    max_grad_norm=-1.5,
    bf16=True,
    run_name=name,
    dtype=torch.bfloat16,
    steps=int(os.environ.get("STEPS", "100")),
    nested={"a": [1, SIZE]},
    workers=os.cpu_count(),
)
model = AutoModel.from_pretrained(MODEL, attn_implementation="sdpa")
trainer = GRPOTrainer(model=model, args=args)
"""


def call(text: str, name: str) -> Call:
    (found,) = [one for one in read_python(text, "train.py") if one.name == name]
    return found


def run(text: str) -> dict[str, dict[str, Any]]:
    """What the calls really get, with classes that write down their arguments."""
    got: dict[str, dict[str, Any]] = {}

    def stand_in(name: str) -> Any:
        def take(*args: Any, **named: Any) -> None:
            got[name] = {**{str(at): one for at, one in enumerate(args)}, **named}

        return take

    class AutoModel:
        from_pretrained = staticmethod(stand_in("AutoModel.from_pretrained"))

    lines = [line for line in text.splitlines() if not line.startswith("from trl")]
    known = {name: stand_in(name) for name in ("GRPOConfig", "LoraConfig", "GRPOTrainer")}
    exec("\n".join([*lines, "build()"]), {**known, "AutoModel": AutoModel})
    return got


def test_values_are_those_that_the_script_gives() -> None:
    said = run(SCRIPT)
    said["GRPOConfig"]["dtype"] = "torch.bfloat16"
    for name in ("GRPOConfig", "LoraConfig", "AutoModel.from_pretrained"):
        read = {one.name: one.value for one in call(SCRIPT, name).givens if known(one.opens)}
        left = said[name].keys() - read.keys()
        assert left == ({"workers"} if name == "GRPOConfig" else set())
        assert read == {key: value for key, value in said[name].items() if key not in left}


def known(opens: tuple[Any, ...]) -> bool:
    return all(one.default is not None for one in opens)


def test_what_comes_from_outside_is_open() -> None:
    opens = {one.name: one.opens for one in call(SCRIPT, "GRPOConfig").givens}
    assert [(o.name, o.default) for o in opens["workers"]] == [("os.cpu_count()", None)]
    assert [(o.name, o.default) for o in opens["steps"]] == [("STEPS", "100")]
    beta = {one.name: one.opens for one in call(SCRIPT, "LoraConfig").givens}["beta"]
    assert [(o.name, o.default) for o in beta] == [("beta", "0.04")]
    trainer = {one.name: one.opens for one in call(SCRIPT, "GRPOTrainer").givens}
    assert trainer["model"] and trainer["args"]


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("num_generations", 8, "SIZE, STEPS = 8, 100"),
        ("output_dir", "a'b", "    output_dir=\"a'b\",  # where"),
        ("learning_rate", 2e-6, "    learning_rate=2e-06,"),
        ("bf16", False, "    bf16=False,"),
        ("max_grad_norm", 1, "    max_grad_norm=1,"),
    ],
)
def test_the_literal_that_decides_is_changed(name: str, value: Any, line: str) -> None:
    place = next(one.place for one in call(SCRIPT, "GRPOConfig").givens if one.name == name)
    assert place
    text = edited({"train.py": SCRIPT}, [Change(place, value)])["train.py"]
    assert run(text)["GRPOConfig"][name] == value
    lines = zip(SCRIPT.splitlines(), text.splitlines(), strict=True)
    assert [new for old, new in lines if old != new] == [line]


@pytest.mark.parametrize("name", ["GRPOConfig", "LoraConfig", "AutoModel.from_pretrained"])
def test_an_argument_is_added_at_a_calls_end(name: str) -> None:
    end = call(SCRIPT, name).end
    assert end
    text = edited({"train.py": SCRIPT}, [Addition(end, ("new", [1, "b"]))])["train.py"]
    assert run(text)[name]["new"] == [1, "b"]
    assert [line for line in SCRIPT.splitlines() if "#" in line and line not in text] == []


def test_what_is_assigned_in_a_branch_rests_on_it() -> None:
    text = "n = 1\nif big:\n    n = 2\nfor i in x:\n    i = 3\nc = GRPOConfig(n=n, i=i, z=[q])\n"
    opens = {one.name: one.opens for one in call(text, "GRPOConfig").givens}
    assert "big" in [o.name for o in opens["n"]]
    assert opens["i"] and opens["z"]


@pytest.mark.parametrize(
    "value",
    [
        *("2 ** 10 ** 10", "'a' * 10 ** 9", "[0] * 10 ** 9", "1 / 0"),
        *("open('x')", "(lambda: 1)()", "x[0]"),
    ],
)
def test_nothing_is_calculated_that_is_large_or_called(value: str) -> None:
    (given,) = call(f"c = GRPOConfig(n={value})", "GRPOConfig").givens
    assert given.opens and not known(given.opens)


@pytest.mark.parametrize("text", ["def", "a = (" * 500, "x" * 500_000, "a\0b", "-" * 100_000 + "1"])
def test_what_is_no_python_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_python(text, "a.py")


@pytest.mark.parametrize("line", ["\f\n", "x = '\u2028'\n", "x = 'é\x1c'\n", "x = 1\r"])
def test_a_place_counts_lines_as_python_does(line: str) -> None:
    text = f"{line}GRPOConfig(r=8)\n"
    (call,) = read_python(text, "run.py")
    place = call.givens[0].place
    assert place and place.line == 2
    assert edited({"run.py": text}, [Change(place, 16)])["run.py"] == f"{line}GRPOConfig(r=16)\n"


PARSED = """from trl import GRPOConfig, GRPOTrainer
def build():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-generations", type=int, default=2)
    parser.add_argument("-b", "--beta")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    settings = dict(num_generations=args.num_generations, max_completion_length=512)
    settings["beta"] = args.beta or 0.1
    if args.quick:
        settings["max_steps"] = 3
    training_args = GRPOConfig(**settings)
    training_args.model_init_kwargs = {"dtype": "bfloat16", "revision": args.revision}
"""


def test_what_a_script_declares_and_hands_on_is_followed() -> None:
    declared = [one.name for one in call(PARSED, "options").givens]
    assert declared == ["num_generations", "beta", "quick"]
    said = {one.name: one for one in call(PARSED, "GRPOConfig").givens}
    rests = {name: [(each.name, each.default) for each in one.opens] for name, one in said.items()}
    assert {name: (one.value, rests[name]) for name, one in said.items() if "." not in name} == {
        "num_generations": (2, [("--num-generations", "2")]),
        "max_completion_length": (512, []),
        "beta": (0.1, [("--beta", "0.1")]),
        "max_steps": (3, [("args.quick", None)]),
    }
    assert said["model_init_kwargs.dtype"].value == "bfloat16"
    assert rests["model_init_kwargs.revision"] == [("args.revision", None)]


def test_a_mapping_that_is_no_longer_known_is_open() -> None:
    text = "a = dict(beta=0)\nfor a in b:\n    pass\nc = dict(x=1)\nc[d] = 2\n"
    for name in "ac":
        (given,) = call(f"{text}GRPOConfig(**{name})", "GRPOConfig").givens
        assert given.name == "**" and not known(given.opens)


def test_entries_of_a_mapping_stand_where_they_are_written() -> None:
    text = "base = {'a': 1, 'deep': {'b': 2}}\nmore = dict(c=3)\nSomeConfig(**base, **more)\n"
    found = {one.name: one for one in call(text, "SomeConfig").givens}
    assert {name: one.value for name, one in found.items()} == {"a": 1, "deep": {"b": 2}, "c": 3}
    spots = [found["a"].place, found["deep"].entries[0].place, found["c"].place]
    assert [text[one.start : one.end] for one in spots if one] == ["1", "2", "3"]


def test_a_branch_that_is_not_taken_builds_nothing() -> None:
    text = "BIG = False\nif BIG:\n    AConfig(n=1)\nelse:\n    BConfig(n=2)\n"
    assert [one.name for one in read_python(text, "a.py")] == ["BConfig"]
    first, second = read_python(text.replace("= False", "= ask()"), "a.py")
    rests = [[(each.name, each.default) for each in one.givens[0].opens] for one in (first, second)]
    assert rests == [[("BIG", "True")], [("not BIG", "True")]]
