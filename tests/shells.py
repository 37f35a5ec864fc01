"""bash itself, with stand-ins on its PATH that write down what they are given; and drawn scripts.

``python tests/shells.py 4000 1000`` compares 1,000 drawn scripts from seed 4000 on, and prints
each that differs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from planner.importer.shell import read_shell

STAND_IN = """#!/bin/sh
printf '%s\\000' "${0##*/}" "$@" >> "$RECORD"
printf '\\001\\000' >> "$RECORD"
"""
STAND_INS = ("python", "torchrun", "accelerate", "srun", "deepspeed", "uv", "trl")
REAL = ("cat", "tee", "bash", "sed")


class Bash:
    """Runs scripts of our own in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in STAND_INS:
            (self.bin / name).write_text(STAND_IN)
            (self.bin / name).chmod(0o755)
        for name in REAL:
            os.symlink(f"/bin/{name}", self.bin / name)

    def commands(self, script: str) -> list[list[str]]:
        """What each stand-in was started with, in their order."""
        record = self.folder / "record"
        record.write_bytes(b"")
        with tempfile.TemporaryDirectory(dir=self.folder) as inside:
            (Path(inside) / "script.sh").write_text(script, "utf-8")
            subprocess.run(
                ["/bin/bash", "script.sh"],
                env={"PATH": str(self.bin), "RECORD": str(record), "LC_ALL": "C.UTF-8"},
                cwd=inside,
                capture_output=True,
                timeout=30,
                check=False,
            )
        found: list[list[str]] = [[]]
        for word in record.read_bytes().decode().split("\0")[:-1]:
            if word == "\1":
                found.append([])
            else:
                found[-1].append(word)
        return found[:-1]


def read(script: str) -> list[list[str]]:
    """The same from the script's text, of scripts that start ``python NAME.py …`` alone."""
    return [
        ["python", launch.program, *(word.text for word in launch.arguments)]
        for launch in read_shell(script, "script.sh", {})
    ]


@dataclass
class Drawn:
    """Draws scripts in which nothing comes from outside."""

    random: random.Random
    deep: int = 0
    started: int = 0
    functions: int = 0
    lines: list[str] = field(default_factory=list)

    TEXTS = (
        *("a", "8", "16", "x.y", "a/b/c.d", "a b", "", " c "),
        *("q,r", "a=b", "x[1,2]", "{k:v}", "é"),
    )
    NAMES = ("A", "B", "C")
    NUMBERS = ("N", "M", "K")
    ARRAYS = ("L", "R")

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def quoted(self, text: str) -> str:
        """A text in one of the ways to write it."""
        plain = all(one.isalnum() or one in "./=[],:" for one in text) and text
        ways = [f"'{text}'", f'"{text}"']
        if plain:
            ways += [text, text, text]
            if len(text) > 1:
                ways.append(f"{text[0]}'{text[1:]}'")
        return self.random.choice(ways)

    def number(self, deep: int = 0) -> str:
        """An arithmetic expression."""
        if deep > 2 or self.random.random() < 0.3:
            name = f"${self.one(*self.NUMBERS)}"
            return self.one(*self.NUMBERS, name, "1", "2", "7", "0x10", "12")
        a, b = self.number(deep + 1), self.number(deep + 1)
        form = self.one(
            *("{a} + {b}", "{a} - {b}", "{a}*{b}", "{a} / 3", "{a}%5", "({a})", "-{a}", "{a}<<2"),
            *("{a}>{b}", "{a} == {b}", "{a}&&{b}", "{a} ? {b} : 3", "!{a}", "{a} & 6 | 1"),
            "({a}) ** 2",
        )
        return form.format(a=a, b=b)

    def expansion(self) -> str:
        name, array = self.one(*self.NAMES), self.one(*self.ARRAYS)
        text = self.one("a", "b", "x y")
        return self.one(
            *(f"${{{name}}}", f"${{{name}}}", f"${{{name}:-{text}}}", f"${{UNSET:-{text}}}"),
            *(f"${{{name}:+{text}}}", f"${{#{name}}}", f"${{{name}#*[/.]}}", f"${{{name}##*/}}"),
            *(f"${{{name}%.*}}", f"${{{name}%%[ab]*}}", f"${{{name}/a/{text}}}"),
            f"${{{name}//[!a]/_}}",
            *(f"${{{name}/#a/z}}", f"${{{name}/%b/z}}", f"${{{name}:1}}", f"${{{name}:0:2}}"),
            *(f"${{{name}^^}}", f"${{{name},}}", f"${{UNSET:-$(({self.number(1)}))}}"),
            *(f"$(({self.number()}))", f"${{{self.one(*self.NUMBERS)}}}"),
            *(f"${{{array}[0]}}", f"${{#{array}[@]}}", f"${{{array}[-1]}}", f"${{{array}[N % 2]}}"),
            *(f"${{{array}[@]}}", f"${{{array}[*]}}", f"${{UNSET:-${{{name}:-{text}}}}}"),
        )

    def word(self, splits: bool = True) -> str:
        parts = []
        for _ in range(self.random.randint(1, 3)):
            if self.random.random() < 0.5:
                parts.append(self.quoted(self.random.choice(self.TEXTS)))
            elif splits and self.random.random() < 0.4:
                parts.append(self.expansion())
            elif self.random.random() < 0.2:
                parts.append(f'"${self.one(*self.NAMES, *self.NUMBERS)}"')
            else:
                before = self.random.choice(("", "", "p ", "\\$", "'", "k="))
                parts.append(f'"{before}{self.expansion()}{self.random.choice(("", " z"))}"')
        return "".join(parts)

    def condition(self) -> str:
        name, number = self.one(*self.NAMES), self.one(*self.NUMBERS)
        text, other = self.quoted(self.random.choice(self.TEXTS)), self.one(*self.NUMBERS)
        return self.one(
            *(f'[ -z "${name}" ]', f'[ -n "${name}" ]', f'[ "${name}" = {text} ]'),
            *(f'[ "${name}" != {text} ]', f"[ ${number} -gt 4 ]", f"[ ${number} -le ${other} ]"),
            *(f"[[ ${name} == a* ]]", f"[[ ${name} == {text} ]]", f'[[ "${name}" =~ ^[ab]+ ]]'),
            *(f"[[ ${number} -lt 5 && -n ${name} ]]", f"[[ -z ${name} || {number} -ge 3 ]]"),
            *(f"(({self.number()}))", f'! [ "${name}" = a ]'),
            f'[ ${number} -eq 8 ] && [ -n "${name}" ]',
            *(f'[ ! -z "${name}" -a 1 -lt 2 ]', f"[[ ! ( ${name} < b ) ]]", "true", "false"),
        )

    def start(self) -> str:
        self.started += 1
        words = " ".join(self.word() for _ in range(self.random.randint(0, 4)))
        return f"python run{self.started}.py {words}".rstrip()

    def statements(self) -> str:
        self.deep += 1
        found = "\n".join(self.statement() for _ in range(self.random.randint(1, 3)))
        self.deep -= 1
        return found

    def statement(self) -> str:
        kinds = ["assign", "assign", "number", "array", "start", "start"]
        if self.deep < 3:
            kinds += ["if", "for", "while", "case", "function", "shell"]
            kinds += ["list", "document", "counted"]
        name, array, number = self.one(*self.NAMES), self.one(*self.ARRAYS), self.one(*self.NUMBERS)
        match self.random.choice(kinds):
            case "assign":
                return self.one(
                    f"{name}={self.word()}",
                    f"export {name}={self.word(False)}",
                    f"{name}+={self.word()}",
                    f"{name}=${{{name}:-{self.quoted('d')}}}  # a default\n:",
                )
            case "number":
                return self.one(
                    f"{number}=$(({self.number()}))",
                    f"(({number} = {self.number()})) || true",
                    f"let {number}={self.one(*self.NUMBERS)}+1",
                    f"(( {number}++ )); (( {number} %= 50 ))",
                )
            case "array":
                words = " ".join(self.word() for _ in range(self.random.randint(1, 3)))
                return self.one(
                    f"{array}=({words})",
                    f"{array}+=({words})",
                    f"{array}[1]={self.word(False)}",
                    f"{array}=(\n  {words}\n  # why\n  last\n)",
                )
            case "start":
                lines = self.start().split(" ", 2)
                joined = " ".join(lines[:2]) + " \\\n  " + "".join(lines[2:])
                return self.one(" ".join(lines), joined)
            case "if":
                other = f"elif {self.condition()}\nthen\n{self.statements()}\n"
                return (
                    f"if {self.condition()}; then\n{self.statements()}\n"
                    f"{self.one('', other)}else\n{self.statements()}\nfi"
                )
            case "for":
                several = f"{self.word()} {self.word()}", "{1..3}", f'"${{{array}[@]}}"'
                words = self.one(*several, "u{v,w}")
                return f"for {name} in {words}; do\n{self.statements()}\ndone"
            case "while":
                turn = f"I{self.deep}"
                leave = self.one("", f"if {self.condition()}; then break; fi\n", "continue\n")
                return (
                    f"{turn}=0\nwhile [ ${turn} -lt 2 ]; do\n{turn}=$(({turn} + 1))\n"
                    f"{self.statements()}\n{leave}done"
                )
            case "counted":
                turn = f"I{self.deep}"
                return f"for (({turn}=0; {turn}<2; {turn}++)); do\n{self.statements()}\ndone"
            case "case":
                return (
                    f'case "${name}" in\n{self.quoted("a")}|8) {self.statements()} ;;\n'
                    f"a*|*.y)\n{self.statements()}\n;;\n*) {self.statements()};;\nesac"
                )
            case "function":
                self.functions += 1
                called = f"act{self.functions}"
                body = f'local {name}=$1\n{self.statements()}\npython in.py "$@" $#'
                return f"{called}() {{\n{body}\n}}\n{called} {self.word()} {self.word()}"
            case "shell":
                return self.one(
                    f"( {self.statements()} )",
                    f"{{ {self.statements()}\n}}",
                    f"{self.start()} | cat",
                    f"eval \"python ev.py \\\"\\${name}\\\" {number}\"",
                )
            case "list":
                return self.one(
                    f"{self.condition()} && {self.start()}",
                    f"{self.condition()} || {self.start()}",
                    f"{self.start()} && {self.start()} || {self.start()}",
                )
            case _:
                body = f"a: ${name}\nb: $(({self.number()}))"
                return f"cat > conf.yaml <<EOF\n{body}\nEOF\n{self.start()}"

    def script(self) -> str:
        lines = [f"{name}={self.quoted(self.random.choice(self.TEXTS))}" for name in self.NAMES]
        lines += [f"{name}={self.random.randint(0, 12)}" for name in self.NUMBERS]
        lines += [f"{name}=({self.quoted('a b')} c)" for name in self.ARRAYS]
        lines += [self.statement() for _ in range(self.random.randint(2, 7))]
        first = self.one("set -x", "# nothing set")
        return "\n".join(["#!/usr/bin/env bash", first, *lines, self.start(), ""])


def drawn(seed: int) -> str:
    """One script."""
    return Drawn(random.Random(seed)).script()


if __name__ == "__main__":
    differing = 0
    with tempfile.TemporaryDirectory() as place:
        real = Bash(Path(place))
        first, many = map(int, sys.argv[1:])
        for seed in range(first, first + many):
            text = drawn(seed)
            said = real.commands(text)
            try:
                found: object = read(text)
            except ValueError as error:
                found = error
            if found != said:
                differing += 1
                print(f"---- seed {seed}\n{text}\nbash: {said}\nread: {found}")
    print(f"{differing} of {many} differ")
