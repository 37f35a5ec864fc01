"""Hostile values in the texts that importers read: scripts, configurations, programs."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString

from hostile.values import Wrong, same
from planner import registry
from planner.importer.imported import imported
from planner.importer.reading import Entry
from planner.importer.shell import read_shell
from planner.launch.export import export
from planner.plan import Plan
from planner.plan.frameworks import frameworks


def single(value: str) -> str:
    return shlex.quote(value)


def double(value: str) -> str:
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


def ansi(value: str) -> str:
    """As bash has it behind a dollar sign."""
    named = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "$'" + "".join(named.get(one, one) for one in value) + "'"


QUOTES: tuple[Callable[[str], str], ...] = (single, double, ansi)


def quoted_for_hydra(value: str) -> str:
    return str(QuotedString(text=value, quote=Quote.single).with_quotes())


def hydras(word: str) -> object:
    """What hydra makes of an override; None where it refuses it."""
    try:
        found = OverridesParser.create().parse_override(word).value()
    except Exception:
        return None
    return found.text if isinstance(found, QuotedString) else found


def program() -> str:
    """A program of our own, whose constants name a model."""
    plan = Plan(method="sft", framework="plain", gpus=1, model="Qwen/Qwen2.5-0.5B")
    return export(plan, "plain").text("train_sft.py")


PROGRAM = program()
TRL = "from trl import GRPOConfig\nargs = GRPOConfig(num_generations=8, run_name={})\n"
TRAINER = (
    "from transformers import Trainer, TrainingArguments\n"
    "args = TrainingArguments(output_dir='x', run_name={})\ntrainer = Trainer(args=args)\n"
)
OF_VERL = ("trainer.experiment_name", "data.train_files")
Texts = Mapping[str, str]


def ways(dice: random.Random, value: str) -> list[tuple[str, str, Texts]]:
    """Texts that give a value to a setting of a framework's, and the setting's name."""
    quote = dice.choice(QUOTES)
    literal = dice.choice((ascii, repr, partial(json.dumps, ensure_ascii=False)))(value)
    document = yaml.safe_dump({"run_name": value}, allow_unicode=dice.random() < 0.5)
    if yaml.safe_load(document) != {"run_name": value}:  # PyYAML writes a line's end of Unicode's
        document = yaml.safe_dump({"run_name": value})
    own = PROGRAM.replace('"model": "Qwen/Qwen2.5-0.5B"', f'"model": {literal}')
    data = f"python3 train_sft.py {quote(f'--data={value}')}\n"
    given = quote(quoted_for_hydra(value))
    verl = {name: f"python3 -m verl.trainer.main_ppo {name}={given}\n" for name in OF_VERL}
    run = f"trl grpo --num_generations 8 {quote(f'--run_name={value}')}\n"
    deepspeed = json.dumps({"tag": value}, ensure_ascii=dice.random() < 0.5)
    return [
        *(("verl", name, {"a.sh": text}) for name, text in verl.items()),
        ("trl", "run_name", {"a.sh": run}),
        ("trl", "run_name", {"a.sh": "trl grpo --config c.yaml\n", "c.yaml": document}),
        ("trl", "run_name", {"a.py": TRL.format(literal)}),
        (
            *("trl", "deepspeed.tag"),
            {"a.sh": "trl grpo --deepspeed d.json --run_name a\n", "d.json": deepspeed},
        ),
        ("plain", "data", {"a.sh": data, "train_sft.py": PROGRAM}),
        ("plain", "model", {"mine.py": own}),
        ("hf_trainer", "run_name", {"a.py": TRAINER.format(literal)}),
    ]


READ = [name for name in frameworks() if registry.has("frameworks", name, "importer")]


def read(framework: str, name: str, texts: Texts, value: str) -> None:
    """Raise unless an import has this value for this setting, and for its framework."""
    found = imported(texts)
    if framework != found.framework:
        raise Wrong(f"{framework} is read as {found.framework or 'nothing'}: {found.notes}")
    if framework == "verl":  # whose parser is hydra's
        word = read_shell(texts["a.sh"], "a.sh", {})[0].arguments[0].text
        told = hydras(word)
        if told is None or "${" in value:
            return None  # refused, or left to what is around
        same("hydra", told, value)
    reading = found.reading
    lists = (reading.understood, reading.no_effect, reading.open, reading.unknown, reading.beyond)
    entries = [one for each in lists for one in each if one.name == name]
    if not entries:
        raise Wrong(f"{framework}: no {name}")
    return None if alike(entries[0], value) else same(name, entries[0].value, value)


def alike(entry: Entry, value: str) -> bool:
    """Whether this is the text; a reader may take one that looks so for a number or a word."""
    if isinstance(entry.value, str) or entry.value is None:
        return (entry.value or "null") == value
    try:
        return str(entry.value).lower() == value.lower() or float(value) == entry.value
    except ValueError:
        return False
