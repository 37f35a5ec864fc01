"""Texts that are made to take long, to fill memory or to run something."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.importer.given import UnreadableError
from planner.importer.imported import imported
from planner.importer.json_text import read_json
from planner.importer.python_text import read_python
from planner.importer.shell import read_shell
from planner.importer.shell.source import MOST_CHARACTERS
from planner.importer.yaml_text import read_yaml

MOST_SECONDS = 2
"""Of the processor; one is promised on a machine that does nothing else."""
BACKSLASH = "\\"
SHELL = {
    "many words": "python " + "a " * 59_000,
    "doubling": "A=xxxxxxxxxx\n" + "A=$A$A\n" * 60 + "python $A",
    "counting": "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done; python $i",
    "loops in loops": "for a in {1..999}; do for b in {1..999}; do python $a $b; done; done",
    "braces": "python " + "{a,b}" * 40,
    "braces in braces": "python " + "{a," * 300 + "}" * 300,
    "a long row": "python {1..100000000}",
    "defaults in defaults": "python " + "${a:-" * 5_000 + "}" * 5_000,
    "commands in commands": "python " + "$(" * 5_000 + ")" * 5_000,
    "subshells": "(" * 5_000 + "python a" + ")" * 5_000,
    "conditions": "if true; then " * 2_000 + "python a" + "; fi" * 2_000,
    "quotes": "python " + '"' * 100_000,
    "not closed": "python " + "$((" * 30_000,
    "a slow expression": f"X={'a' * 190}\nif [[ $X =~ ^(a+)+b$ ]]; then python a; fi",
    "slow patterns": f"X={'a' * 5_000}\npython ${{X//*a*a*a*a*b/c}} ${{X%%*a*a*b}}",
    "numbers in themselves": "a=b; b=a; python $((a))",
    "a large power": "python $((2 ** 99999999999))",
    "calls itself": "f() { f; f; }; f; python a",
    "reads itself": ". ./run.sh; python a",
    "evaluates itself": "X='eval \"$X\"'; eval \"$X\"",
    "documents": "cat <<A\nA\n" * 13_000,
    "empty lines": "\n" * 110_000,
    "backslashes": "\\" * 110_000,
    "arrays": f"A=({'a ' * 900})\n"
    'for i in "${A[@]}"; do for j in "${A[@]}"; do python $i; done; done',
    "pipes": "a|" * 55_000 + "python a",
    "ands": "true && " * 14_000 + "python a",
    "branches": "if false; then :; " + "elif false; then :; " * 5_000 + "fi; python a",
    "tests": "[[ " * 39_000,
    "expressions": f"X={'a' * 200}\n" + "[[ $X =~ a*a*a*b ]]\n" * 1_500 + "python a",
    "may or may not": f"X={'a' * 60}\n[[ $X =~ {'a?' * 60}{'a' * 60} ]]\npython a",
    "alternatives": f"X={'a' * 60}\n[[ $X =~ ^{'(a|a)' * 35}b ]]\npython a",
    "alternatives again": f"X={'a' * 190}\n[[ $X =~ ^(a|a)*b ]]\npython a",
    "nothing again": "X=a\n[[ $X =~ (|){60}b ]]\npython a",
    "nothing many times": "X=a\n[[ $X =~ ^(){99999999}b ]]\npython a",
    "backslashes again": f"X='{BACKSLASH * 190}'\n[[ $X =~ ^{(BACKSLASH * 2 + '*') * 30}b ]]",
    "many brackets": "case x in " + "|".join(f"[{one:05}]" for one in range(14_000)) + ") ;; esac",
    "not not": "[[ " + "! " * 50_000 + "a ]]",
    "words in parentheses": "[ " + "'(' " * 20_000 + "a ]",
    "printed twice": "echo a > f\n" + "cat f f > g; cat g g > f\n" * 60 + "python a",
    "printed again": "echo " + "a " * 20_000 + "> f\n" + "cat f > g\n" * 2_000 + "python a",
    "separators": "A=b\nIFS=" + "x" * 90_000 + "\npython " + "$A " * 6_000,
    "parts": "b=1\nA=" + "$b" * 10_000 + "\n" + "echo ${A:1:1}\n" * 2_500 + "python a",
    "tabs": "cat > f <<-E\n" + "\t$a\n" * 25_000 + "\tE\npython f",
    "headers": ("#SBATCH " + "{a,b}" * 10 + "\n") * 2_000 + "python a",
}


@pytest.mark.parametrize("name", SHELL)
def test_a_script_is_read_or_refused_in_time(name: str) -> None:
    began = time.process_time()
    try:
        read_shell(SHELL[name], "run.sh", {"run.sh": SHELL[name]})
    except UnreadableError as error:
        assert str(error).startswith("run.sh, line ") and len(str(error)) < 300
    assert time.process_time() - began < MOST_SECONDS


LISTS = "a0=[1, 2]\n" + "".join(f"a{one + 1}=[a{one}, a{one}]\n" for one in range(40))
NAMES = "".join(f"b{one}=1\n" for one in range(15_000))
OTHERS: dict[str, tuple[Callable[[str, str], object], str]] = {
    "lists of one list": (read_python, LISTS + "GRPOConfig(x=f'{a40}')"),
    "a default of lists": (read_python, LISTS + "def f(x=a40):\n GRPOConfig(x=x)"),
    "many branches": (read_python, NAMES + "if a:\n pass\nelse:\n pass\n" * 10_000),
    "many functions": (read_python, NAMES + "def f(): pass\n" * 15_000),
    "one long line": (read_python, "GRPOConfig(é);" * 25_000),
    "the same again": (
        read_python,
        "d={" + ",".join(f"'a{one}':1" for one in range(5_000)) + "}\n" + "AConfig(**d)\n" * 15_000,
    ),
    "mappings of mappings": (read_python, "a=dict(x=1)\n" + "a=dict(**a, **a)\n" * 60),
    "a mapping of many": (read_python, "a={}\n" + "a['b']=1\n" * 30_000 + "GRPOConfig(**a)"),
    "a mapping by branches": (
        read_python,
        "a={}\n" + "if c:\n a['b']=1\n" * 15_000 + "GRPOConfig(**a)",
    ),
    "a mapping in branches": (
        read_python,
        "a={}\n" + "".join(f"{' ' * one}if c:\n" for one in range(90)) + f"{' ' * 90}a['b']=1\n",
    ),
    "many arguments": (read_python, "a.add_argument('--b')\n" * 15_000),
    "many objects": (read_json, "{" + ",\n".join(f'"{one}":{{}}' for one in range(120_000)) + "}"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_texts_are_read_or_refused_in_time(name: str) -> None:
    read, text = OTHERS[name]
    began = time.process_time()
    try:
        read(text, "file")
    except UnreadableError as error:
        assert str(error).startswith("file, line ") and len(str(error)) < 300
    assert time.process_time() - began < MOST_SECONDS


ROW = ", ".join(f'"k{number}": 1' for number in range(9_000))
PYTHON = {
    "a mapping handed on often": f"d = {{{ROW}}}\n" + "SomeConfig(**d)\n" * 10_000,
    "mappings in mappings": "v0 = {'a': 1}\n"
    + "".join(f"v{n + 1} = {{'a': v{n}, 'b': v{n}, 'c': v{n}}}\n" for n in range(40))
    + "TrainingArguments(output_dir=v40, **v40)\nTrainer(args=v30)\n",
    "lists in lists": "v0 = [1]\n"
    + "".join(f"v{n + 1} = [{', '.join([f'v{n}'] * 9)}]\n" for n in range(20))
    + "TrainingArguments(optim=v20)\nTrainer(args=v9)\n",
    "options": "p.add_argument('--a', default=1)\n" * 10_000 + "Trainer(args=a)\n",
    "classes of each other": "class A0(Trainer): pass\n"
    + "".join(f"class A{n + 1}Trainer(A{n}Trainer): pass\n" for n in range(8_000))
    + "class B(B, Trainer): pass\nB()\nTrainingArguments('x')\n",
    "calls of its own classes": "class A(Trainer): pass\n" + "A(model=x.y)\n" * 15_000,
    "calls of a class of many methods": "class A(Trainer):\n"
    + "".join(f"    def m{n}(self): pass\n" for n in range(3_000)) + "A()\n" * 5_000,
    "references": "a.b.c" + ".d" * 50_000 + "\nTrainer(model=a" + ".d" * 50_000 + ")\n",
}


@pytest.mark.parametrize("name", PYTHON)
def test_a_program_is_read_or_refused_in_time(name: str) -> None:
    began = time.process_time()
    found = imported({"train.py": PYTHON[name]})
    assert found.plan is None and all(len(note) < 300 for note in found.notes)
    assert time.process_time() - began < MOST_SECONDS


def read_script(text: str, name: str) -> object:
    return read_shell(text, name, {})


@pytest.mark.parametrize("read", [read_script, read_yaml, read_json, read_python])
def test_ten_megabytes_are_refused_with_a_sentence(read: Callable[[str, str], object]) -> None:
    with pytest.raises(UnreadableError, match="line 1: 10,000,000 characters are more than"):
        read("a = 1 #\n" * 1_250_000, "file")


def test_reading_takes_little_memory() -> None:
    code = (
        "from pathlib import Path\nfrom planner.importer.shell import read_shell\n"
        "try:\n    read_shell('A=xxxxxxxxxx\\n' + 'A=$A$A\\n' * 60 + 'python $A', 'a', {})\n"
        "except ValueError:\n    pass\n"
        "many = 'export a{1..1900}=1 b{1..1900}=1 c{1..1900}=1 d{1..1900}=1 e{1..1900}=1'\n"
        "try:\n    read_shell(many + '\\n' + 'python a\\n' * 1500, 'a', {})\n"
        "except ValueError:\n    pass\n"
        f"read_shell('python a b\\n' * 1500 + '#' * {MOST_CHARACTERS - 20_000}, 'a', {{}})\n"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) * 1024 < 200 * 2**20


def test_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", "s3cret")
    script = (
        "X=$(touch a) `touch b`; touch c; eval 'touch d'; bash -c 'touch e'; : ${Y:=$(touch f)}\n"
        'echo x > g; cat < h > i; python m "$SECRET" ${SECRET} $((SECRET)) <(touch j) "$(cat k)"\n'
    )
    (launch,) = read_shell(script, "run.sh", {})
    read_python("__import__('os').system('touch l')\nc = GRPOConfig(n=open('m', 'w'))", "a.py")
    with pytest.raises(UnreadableError):
        read_yaml("a: !!python/object/apply:os.system ['touch n']", "a.yaml")
    assert [*tmp_path.iterdir()] == []
    assert "s3cret" not in str(launch)
