"""What a text is: a shell script, a program, a configuration, overrides, or what a run printed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Literal

Form = Literal["shell", "python", "yaml", "json", "overrides", "printed"]

LARGEST_CHARACTERS = 2_000_000
"""Of one text: a log of a day is shorter, and nothing here is worth reading longer."""
SUFFIXES: dict[str, Form] = {
    **dict.fromkeys(("sh", "bash", "slurm", "sbatch"), "shell"),
    "py": "python",
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("json", "jsonl"), "json"),
    **dict.fromkeys(("log", "out", "err", "csv"), "printed"),
}
STARTS = re.compile(
    r"^\s*(?:[A-Z_]+=\S*\s+)*(?:nohup |env |srun |uv run |\$PYTHON )*"
    r"(?:python3?\b|torchrun\b|accelerate launch\b|deepspeed\b|trl \w|ray job\b|sbatch\b|swift \w"
    r"|llamafactory-cli\b|axolotl\b)",
    re.MULTILINE,
)
"""A line that starts a program."""
OVERRIDE = re.compile(r"^(?:[+]{0,2}[A-Za-z_][\w.@/-]*=[^\s=].*|~[A-Za-z_][\w.@/-]*)?\s*\\?$")
CALL = re.compile(r"\b(?:\w+Config|TrainingArguments)\s*\(")
PAIR = re.compile(r"^\s*(?:- )?[a-z_][\w-]*\s*:(?:\s|$)|^\s*- ")


def form_of(name: str, text: str) -> Form:
    """By a file's name, else by what stands in it.

    Args:
        name: the file's name; one without a known ending says nothing.
        text: at most :data:`LARGEST_CHARACTERS` of it are looked at.
    """
    suffix = name.rpartition(".")[2].lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    text = text[:LARGEST_CHARACTERS]
    lines = [line for line in text.splitlines() if line.strip()]
    if text.lstrip()[:1] in ("{", "[") and _is(json.loads, text):
        return "json"
    if text.startswith("#!") and "sh" in text.partition("\n")[0]:
        return "shell"
    if CALL.search(text) and _is(ast.parse, text):
        return "python"
    if STARTS.search(text):
        return "shell"
    written = [line for line in lines if not line.lstrip().startswith("#")]
    if written and all(OVERRIDE.match(line.strip()) for line in written):
        return "overrides"
    pairs = sum(bool(PAIR.match(line)) for line in written)
    return "yaml" if written and 2 * pairs > len(written) else "printed"


def _is(parses: Callable[[str], object], text: str) -> bool:
    try:
        parses(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
