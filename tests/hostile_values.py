"""Hostile values through every exporter and importer: the intended words arrive, and nothing runs.

``PYTHONPATH=.:tests python -m hostile_values 20000`` draws so many values. Three in ten are given
to exported scripts as what these ask for, each launch started with stand-ins (every framework, its
methods, wherever it is launched); the others are written into scripts and configurations in every
way that these have, read by the importers, and put into benign ones by an import's way back. What
is right is told by bash, YAML's and JSON's own readers, hydra's parser and Python.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString

from launch.running import PATHS, unpack
from launch.test_places import ATOMIC, HOSTS, SRUN
from launch.tiny_models import config
from planner import catalog, registry
from planner.importer.edited import Change, edited
from planner.importer.given import Given
from planner.importer.imported import imported
from planner.importer.json_text import read_json
from planner.importer.python_text import read_python
from planner.importer.reading import Entry
from planner.importer.shell import read_shell
from planner.importer.yaml_text import read_yaml
from planner.launch.bundle.places import PLACES, RAY_JOB, asked, why_not_on
from planner.launch.export import export, exported, fitted
from planner.launch.launch import Launch
from planner.launch.script import SAFE_PATH
from planner.plan import Plan, choices
from planner.plan.frameworks import frameworks
from planner.plan.trainers import exporting
from shells import Bash

PARTS = (
    *("$(touch pwned)", "`touch pwned`", "; touch pwned", "&& touch pwned #", "| touch pwned"),
    *("> pwned", "\ntouch pwned\n", "'", '"', "\\", "$", "${HOME}", "$((1+1))", "${x:-y}", "!!"),
    *("\n", "\r", "\t", " ", "  ", "#", " #", "*", "?", "~", "{a,b}", "[", "]", "(", ")", "<<EOF"),
    *("'; touch pwned; '", '"; touch pwned; "', "');__import__('os').system('touch pwned')#"),
    *('"""', "%s", "{0}", "{{", "&a ", "*a", "!!python/object/apply:os.system ['touch pwned']"),
    *(": ", "- ", "---", "yes", "null", "1e5", "0x10", "-", "--x", "--x=1", "=", ",", "@", "@file"),
    *("é", "\u202e", "\u2028", "\x85", "\U0001f600", "\x02", "\x7f", "..", "/", "//", "a", "b c"),
)
FEW = 0.3
"""Share of the values that exported scripts are given; each costs a launch a part of its time."""
UNSAFE = re.compile(rf"[^{SAFE_PATH}]")
UNNAMED = re.compile(r"[^\w.\-/]")
"""No character of a model's name, as a plan has it."""
MARK = "MARKED{}.jsonl"


def drawn(dice: random.Random) -> str:
    """A text that nobody means well with."""
    text = "".join(dice.choices(PARTS, k=dice.randint(1, 6)))
    # Readers take the line ends of another system for their own.
    return text.replace("\r\n", "\r")


class Wrong(Exception):
    """What arrived is not what was meant."""


def same(what: str, found: object, wanted: object) -> None:
    """Raise unless both are alike."""
    if found != wanted:
        raise Wrong(f"{what}: {found!r} for {wanted!r}")


# Exporters


@dataclass
class Bundle:
    """An export in a folder, with stand-ins for all that it starts."""

    launch: Launch
    on: str
    folder: Path
    names: tuple[str, ...] = ()
    """Variables that it takes from a person."""
    usual: list[list[str]] = field(default_factory=list)
    """What it starts where these are harmless, marked texts."""

    def __post_init__(self) -> None:
        unpack(self.launch, self.folder)
        programs = self.folder / "programs"
        programs.mkdir()
        texts = dict.fromkeys(("accelerate", "ray", "vllm"), ATOMIC)
        texts |= {"python3": CARRYING, "srun": SRUN, "scontrol": HOSTS}
        for name, text in texts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        script = self.folder / self.launch.files[0].name
        text = script.read_text().replace("{1..300}", "1").replace("sleep 2", "true")
        script.write_text(text)
        known = {name for name, _ in asked(self.launch)} - {*FROM_OUTSIDE}
        self.names = (*sorted(known), "OUTPUT_DIR")
        marks = {name: MARK.format(at) for at, name in enumerate(self.names)}
        ended, self.usual = self.started(marks)
        assert ended == 0, (self.launch.framework, self.on)

    def started(self, values: Mapping[str, str]) -> tuple[int, list[list[str]]]:
        """How the script ends with these values, and every command that it comes to."""
        record = self.folder / "record"
        record.write_bytes(b"")
        done = subprocess.run(
            ["bash", str(self.folder / self.launch.files[0].name)],
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'programs'}:/usr/bin:/bin",
                "RECORD": str(record),
                "LC_ALL": "C.UTF-8",
                **{name: PATHS[name] for name in FROM_OUTSIDE if name in PATHS},
                **SCHEDULER,
                "SLURM_SUBMIT_DIR": str(self.folder),
                **values,
            },
            capture_output=True,
            timeout=60,
        )
        calls = record.read_bytes().decode().split("\n\0")
        return done.returncode, sorted([*_words(call.split("\0")[:-1])] for call in calls if call)

    def holds(self, values: Mapping[str, str]) -> None:
        """Raise unless these values arrive where the marked ones did, or are refused."""
        ended, calls = self.started(values)
        if list(self.folder.rglob("pwned")):
            raise Wrong("something ran")
        unsafe = self.launch.framework == "verl" and any(map(UNSAFE.search, values.values()))
        if unsafe and self.on != RAY_JOB:  # whose job alone sees what launch.sh refuses
            return same("end", (ended, self.trained(calls)), (2, []))
        wanted = self.usual
        for at, name in enumerate(self.names):
            wanted = [[self.word(w, MARK.format(at), values[name]) for w in c] for c in wanted]
        return same("words", (ended, calls), (0, sorted(wanted)))

    def word(self, word: str, mark: str, value: str) -> str:
        """A word with a value in the place of its mark; of a path what the folder makes of it."""
        whole = os.path.realpath(self.folder / value)
        return word.replace(f"{self.folder}/{mark}", whole).replace(mark, value)

    def trained(self, calls: list[list[str]]) -> list[list[str]]:
        """The commands that train."""
        return [words for words in calls if "verl.trainer" in " ".join(words)]


def _words(call: list[str]) -> Iterator[str]:
    """A command's words; what a job of Ray carries, one by one."""
    for word in call:
        if word.startswith('{"env_vars"'):
            yield from (f"{name}={value}" for name, value in json.loads(word)["env_vars"].items())
        else:
            yield word


CARRYING = f"""{ATOMIC}
# What a job is to carry of the variables, Python says.
if [ "$1" = -c ]; then exec {shlex.quote(sys.executable)} "$@"; fi
"""

FROM_OUTSIDE = ("NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "ENGINE_HOST", "RAY_ADDRESS")
"""Variables that a scheduler or a cluster has, not a person's texts."""
SCHEDULER = {
    "SLURM_JOB_ID": "70123",
    "SLURM_JOB_NODELIST": "node[1-4]",
    "RAY_ADDRESS": "http://10.0.0.9:8265",
}


def kinds() -> list[tuple[str, str, str, bool]]:
    """Framework, method, where it is launched, and whether the weights lie in a folder."""
    return [
        (framework, method, on, own)
        for framework in exported()
        for method in choices("method")
        if framework in exporting(method)
        for on in PLACES
        for own in (False, True)
    ]


class Exports:
    """Bundles, each made when it is drawn first."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice, self.made = folder, dice, dict[Any, Bundle | None]()
        self.kinds = kinds()

    def bundle(self, kind: tuple[str, str, str, bool]) -> Bundle | None:
        if kind not in self.made:
            self.made[kind] = self.make(*kind)
        return self.made[kind]

    def make(self, framework: str, method: str, on: str, own: bool) -> Bundle | None:
        fields: dict[str, Any] = {"method": method, "framework": framework}
        if own:
            name = UNNAMED.sub("", drawn(self.dice)) or "a/tiny"
            fields |= {"config": catalog.encode_config(config()), "model": name}
            fields |= {"prompt_tokens": 64, "response_tokens": 64, "logits": "full"}
        if framework == "plain":
            fields |= {"gpus": 2, "sharding": "ddp"}
        for more in ({"rollout": "hf", "reward": "remote"}, {"reward": "remote"}, {}):
            try:
                plan = fitted(Plan(**fields, **more), framework)
            except ValueError:  # one that no plan has, or no export
                continue
            if why_not_on(plan, export(plan, framework), on):
                return None
            folder = self.folder / f"{framework}-{method}-{on}-{own}"
            return Bundle(export(plan, framework, on=on), on, folder)
        return None

    def tried(self) -> int:
        """A launch with values drawn for all that it asks; how many these were."""
        bundle = self.bundle(self.dice.choice(self.kinds))
        if bundle is None:
            return 0
        values = {name: f"{drawn(self.dice)}.jsonl" for name in bundle.names}
        if bundle.launch.framework == "verl" and self.dice.random() < 0.5:
            values = {name: UNSAFE.sub("", value) for name, value in values.items()}
        bundle.holds(values)
        return len(values)


# Importers


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
    if isinstance(entry.value, str):
        return entry.value == value
    return str(entry.value).lower() == value.lower() or entry.value == yaml.safe_load(value)


# The way back

LAYOUTS = (
    "python a.py --b 1 {}mine c\n",
    "python a.py --b 1 {}'mine' c\n",
    'python a.py --b 1 {}"mine" c\n',
    "X=mine\npython a.py --b 1 {}$X c\n",
    'X="mine"\npython a.py --b 1 "{}$X" c\n',
    'python a.py --b 1 "{}${{X:-mine}}" c\n',
    "A=(x mine)\npython a.py --b 1 \\\n  {}\"${{A[1]}}\" c\n",
)
FILES = {
    "a.yaml": ("run: mine  # why\nb: 1\n", "run: 'mine'\nb: 1\n", 'run: "mine"\nb: 1\n',
               "{run: mine, b: 1}\n", "b: 1\nrun: mine"),
    "a.json": ('{"run": "mine", "b": 1}\n',),
    "a.py": ("x = dict(run='mine', b=1)\n", 'x = dict(run="mine", b=1)\n',
             "run = 'mine'\nx = dict(run=run, b=1)\n"),
}  # fmt: skip


class Back:
    """Benign texts in which an import's way back writes another value."""

    def __init__(self, bash: Bash) -> None:
        self.bash = bash

    def script(self, dice: random.Random, value: str) -> None:
        text = dice.choice(LAYOUTS).format(dice.choice(("", "--n=", "x")))
        (launch,) = read_shell(text, "a.sh", {})
        before = self.bash.commands(text)
        word = launch.arguments[2]
        place = word.part(word.text.index("mine"), len(word.text)).place
        assert place is not None, text
        after = edited({"a.sh": text}, [Change(place, value)])["a.sh"]
        wanted = [[one.replace("mine", value) for one in words] for words in before]
        if re.search(r" [-=nx]*\$X", text):  # bash splits what a person's script does not quote
            wanted = self.bash.commands(after)
        same(f"{text!r} by bash", self.bash.commands(after), wanted)
        (again,) = read_shell(after, "a.sh", {})
        words = ["python", again.program, *(one.text for one in again.arguments)]
        same(f"{after!r} read again", [words], wanted)

    def document(self, dice: random.Random, value: str) -> None:
        name = dice.choice([*FILES])
        text = dice.choice(FILES[name])
        place = given(name, text).place
        assert place is not None, text
        after = edited({name: text}, [Change(place, value)])[name]
        try:
            parsed = PARSED[name](after)
        except (ValueError, SyntaxError, yaml.YAMLError) as error:
            raise Wrong(f"{after!r}: {error}") from error
        same(f"{after!r} parsed", parsed, {"run": value, "b": 1})
        same(f"{after!r} read", given(name, after).value, value)


def python(text: str) -> dict[str, Any]:
    """What a script calls ``x``, which is made of literals."""
    tree = ast.parse(text)
    made: dict[str, Any] = {}
    for node in tree.body:
        assert isinstance(node, ast.Assign)
        call = node.value
        if isinstance(call, ast.Call):
            return {
                str(one.arg): made[one.value.id]
                if isinstance(one.value, ast.Name)
                else ast.literal_eval(one.value)
                for one in call.keywords
            }
        made[ast.unparse(node.targets[0])] = ast.literal_eval(call)
    raise AssertionError(text)


PARSED: Mapping[str, Callable[[str], Any]] = {
    "a.yaml": yaml.safe_load,
    "a.json": json.loads,
    "a.py": python,
}


def given(name: str, text: str) -> Given:
    """What a reader gives for ``run``."""
    if name == "a.py":
        givens = read_python(text, name)[-1].givens
    else:
        givens = (read_yaml if name == "a.yaml" else read_json)(text, name).givens
    return next(one for one in givens if one.name == "run")


# All of it


def tried(values: int, seed: int, folder: Path) -> Iterator[tuple[int, str]]:
    """How many values were tried, time and again, and what was wrong with them, if anything."""
    dice = random.Random(seed)
    bash = Bash(folder)
    exports, back = Exports(folder / "exports", dice), Back(bash)
    (folder / "exports").mkdir()
    done = 0
    for number in count():
        if done >= values:
            return
        new, wrong, what = 1, "", ""
        value = drawn(dice)
        try:
            # One in seven launches a bundle; each takes several values.
            if dice.random() < FEW / 2:
                what = "exported"
                new = exports.tried()
            elif number % 3 == 0:
                what = "back in a script"
                back.script(dice, value)
            elif number % 3 == 1:
                what = "back in a file"
                back.document(dice, value)
            else:
                able = [one for one in ways(dice, value) if one[0] in READ]
                framework, name, texts = dice.choice(able)
                what = f"read by {framework}"
                read(framework, name, texts, value)
            if list(folder.rglob("pwned")):
                raise Wrong("something ran")
        except Wrong as error:
            wrong = f"{what}: {error}"
        done += new
        yield done, wrong


def main(values: int, seed: int = 42) -> int:
    """Print what went wrong; how often it did."""
    wrong: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for _, said in tried(values, seed, Path(folder)):
            wrong[said] += bool(said)
    failed = sum(wrong.values())
    print(f"{values:,} hostile values, {failed:,} of which went wrong.")
    for said, times in wrong.most_common(20):
        if times:
            print(f"{times} × {said[:600]}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:])), 1))
