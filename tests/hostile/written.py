"""Hostile values that an import's way back writes into a person's benign texts."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from hostile.values import Wrong, same
from planner.importer.edited import Change, edited
from planner.importer.given import Given
from planner.importer.json_text import read_json
from planner.importer.python_text import read_python
from planner.importer.shell import read_shell
from planner.importer.yaml_text import read_yaml
from shells import Bash

GLOBS = re.compile(r"[*?\[]")
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
    "a.py": ("x = AConfig(run='mine', b=1)\n", 'x = AConfig(run="mine", b=1)\n',
             "run = 'mine'\nx = AConfig(run=run, b=1)\n"),
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
        if re.search(r" [-=nx]*\$X", text):
            if GLOBS.search(value):  # names of files that are there, which nobody reads
                return
            wanted = self.bash.commands(after)  # split, since the script does not quote it
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
