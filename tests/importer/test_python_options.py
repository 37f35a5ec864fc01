"""What a Python script takes from its command, and settings that are no literals of one call.

What the calls get is what they get when the same text is run, with classes that write it down.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from planner.importer.given import Given
from planner.importer.python_text import read_python

OPTIONS = """\
import argparse
SHARE = 0.25

def main():
    args = parse_args()
    settings: dict = dict(num_generations=args.num_generations, top=args.top_k, bf16=args.bf16)
    settings["max_steps"] = args.max_steps
    if args.mode == "colocate":
        settings["share"] = args.share
    else:
        settings["url"] = "http://a"
    settings.update(beta=0.04, **{"lr": args.lr})
    if SHARE == 0.5:
        settings["beta"] = 1.0
    config = GRPOConfig(**settings, mode=args.mode, where="a" if args.mode == "server" else "b")
    config.per_device_train_batch_size = 4
    config.beta = 0.1
    GRPOTrainer(model=args.model, args=config)

def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen3-4B")
    parser.add_argument("-n", "--num-generations", type=int, default=8)
    parser.add_argument("--max-steps", type=int, default=2 * 50, dest="max_steps")
    parser.add_argument("--top_k")
    parser.add_argument("--mode", choices=("colocate", "server"), default="colocate")
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--lr", type=float, default=1e-6)
    parser.add_argument("--bf16", action="store_true")
    return parser.parse_args()

main()
"""
FIELDS = """\
from dataclasses import dataclass, field
from transformers import HfArgumentParser

@dataclass
class Script:
    model: str = field(default="Qwen/Qwen3-4B", metadata={"help": "which"})
    beta: float = 0.04
    tags: list = field(default_factory=list)

@dataclass
class Mine(GRPOConfig):
    num_generations: int = 4

class Trained(GRPOTrainer):
    pass

script, config = HfArgumentParser((Script, Mine)).parse_args_into_dataclasses()
args = GRPOConfig(beta=script.beta, tags=script.tags)
Trained(model=script.model, args=args)
"""


def read(text: str) -> dict[str, dict[str, Given]]:
    """Settings by call, of one name all together."""
    found: dict[str, dict[str, Given]] = {}
    for call in read_python(text, "train.py"):
        found.setdefault(call.name, {}).update({one.name: one for one in call.givens})
    return found


def run(text: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, dict[str, Any]]:
    """What objects of each class hold at the end, with these words behind the script's name."""
    got: dict[str, dict[str, Any]] = {}

    class Held:
        def __init__(self, **given: Any) -> None:
            self.__dict__.update(given)
            got[type(self).__name__] = self.__dict__

    def parsed(self: Any) -> list[Any]:
        return [kind() if kind.__name__ == "Script" else object() for kind in self.kinds]

    module = ModuleType("transformers")
    parser = type(
        "HfArgumentParser",
        (),
        {
            "__init__": lambda self, kinds: setattr(self, "kinds", kinds),
            "parse_args_into_dataclasses": parsed,
        },
    )
    module.HfArgumentParser = parser  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    known = {name: type(name, (Held,), {}) for name in ("GRPOConfig", "GRPOTrainer")}
    made = compile(text, "train.py", "exec", dont_inherit=True)
    exec(made, {**known, "__name__": "transformers"})
    return got


def test_options_are_their_defaults_and_said_to_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(OPTIONS, monkeypatch)["GRPOConfig"]
    found = read(OPTIONS)["GRPOConfig"]
    said = {
        name: one
        for name, one in found.items()
        if all(each.default is not None for each in one.opens)
    }
    values = {name: one.value for name, one in said.items()}
    assert "url" in found and "url" not in values  # of a branch that does not run by itself
    assert values == {name: value for name, value in ran.items() if name != "top"}
    rests = {name: [(o.name, o.default) for o in one.opens] for name, one in found.items()}
    assert rests["num_generations"] == [("--num-generations", "8")]
    assert rests["max_steps"] == [("--max-steps", "100")]
    assert rests["top"] == [("--top_k", None)]
    assert rests["share"] == [("--share", "0.25"), ("args.mode == 'colocate'", "True")]
    assert rests["beta"] == rests["per_device_train_batch_size"] == []
    model = read(OPTIONS)["GRPOTrainer"]["model"]
    assert (model.value, model.opens[0].name) == ("Qwen/Qwen3-4B", "--model")


def test_the_default_of_an_option_is_the_literal_that_decides() -> None:
    lines = OPTIONS.splitlines()
    found = read(OPTIONS)["GRPOConfig"]
    for name, literal in (("num_generations", "8"), ("share", "0.25"), ("lr", "1e-6")):
        place = found[name].place
        assert place and OPTIONS[place.start : place.end] == literal
        assert literal in lines[place.line - 1]
    assert found["bf16"].place is None  # a switch has none


def test_fields_of_a_class_are_options(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(FIELDS, monkeypatch)
    found = read(FIELDS)
    assert found["GRPOConfig"]["beta"].value == ran["GRPOConfig"]["beta"]
    assert found["GRPOTrainer"]["model"].value == ran["Trained"]["model"]
    assert [o.default for o in found["GRPOConfig"]["tags"].opens] == [None]
    assert found["GRPOTrainer"]["class"].value == "Trained"
    own = found["GRPOConfig"]["num_generations"]
    assert (own.value, [o.name for o in own.opens]) == (4, ["--num_generations"])


@pytest.mark.parametrize(
    "between",
    ["kept.update(other)", "kept = other", "kept[key] = 1", "for kept in other: pass"],
)
def test_a_dictionary_that_is_not_written_out_is_open(between: str) -> None:
    found = read(f"kept = dict(n=1)\n{between}\nGRPOConfig(**kept)\n")["GRPOConfig"]
    assert "n" not in found and found["**"].opens


def test_what_a_branch_does_that_does_not_run_by_itself_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = OPTIONS.replace(
        "    GRPOTrainer(",
        "    n = 3\n    if args.bf16:\n        n = 4\n        config.beta = 0.2\n"
        "        GRPOConfig(lora=8)\n    GRPOTrainer(n=n, ",
    )
    found, ran = read(text), run(text, monkeypatch)
    rests = found["GRPOTrainer"]["n"]
    assert rests.value == ran["GRPOTrainer"]["n"] == 3
    assert [(o.name, o.default) for o in rests.opens] == [("args.bf16", "True")]
    for name in ("lora", "beta"):
        assert [o.default for o in found["GRPOConfig"][name].opens] == [None]


def test_a_call_in_a_branch_rests_on_it() -> None:
    text = "if lora:\n    LoraConfig(r=8)\nif 1 == 2:\n    GRPOConfig(n=1)\nSFTConfig(n=2)\n"
    found = read(text)
    assert [o.name for o in found["LoraConfig"]["r"].opens] == ["lora"]
    assert "GRPOConfig" not in found and found["SFTConfig"]["n"].opens == ()
