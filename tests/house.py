"""How large the house is, counted the same on every machine; ``python tests/house.py`` prints it.

Statements are those of the syntax tree, docstrings apart; its nodes count what a line hides.
Files and functions entered are those of ``planner/`` that an estimate runs, of the first plan of a
process (cold) and of the next of the same structure (warm).
"""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLANS: Mapping[str, Mapping[str, str]] = {
    "GRPO": {"method": "grpo"},
    "GRPO on verl": {"method": "grpo", "framework": "verl"},
    "PPO": {"method": "ppo"},
}
FRAMEWORK = "planner.values.framework"
PROGRAM = """
import sys
from planner import Plan, estimate
plan = Plan(model="Qwen/Qwen2.5-7B", gpu="h100-80gb", gpus=8, prompt_tokens=512, response_tokens=2048, **{fields})

def entered(plan):
    seen = set()
    def enter(frame, event, argument):
        if "/planner/" in frame.f_code.co_filename:
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
    sys.settrace(enter)
    estimate(plan)
    sys.settrace(None)
    print(len({{file for file, _ in seen}}), len(seen))

entered(plan)
entered(plan.changed(response_tokens=2049))
"""  # noqa: E501


def size() -> dict[str, int]:
    """Files, lines, statements and nodes of ``planner/``, and the instants listed in it."""
    texts = [path.read_text("utf-8") for path in (ROOT / "planner").rglob("*.py")]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    named = [getattr(call, "id", getattr(call, "attr", "")) for call in calls]
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "statements": sum(isinstance(node, ast.stmt) and not _docstring(node) for node in nodes),
        "syntax nodes": len(nodes),
        "instants listed by hand": named.count("Instant"),
    }


def _docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def framework_fields() -> int:
    """Fields that a framework's folder can set: of whatever it makes, and of a plan's models."""
    from planner.values import framework
    from planner.values.loss_code import LossCode
    from planner.values.model_setup import ModelSetup

    own = [one for one in vars(framework).values() if getattr(one, "__module__", "") == FRAMEWORK]
    kinds = [*filter(dataclasses.is_dataclass, own), LossCode]
    folders = [*(ROOT / "planner/frameworks").glob("*/__init__.py"), Path(framework.__file__)]
    text = "".join(path.read_text("utf-8") for path in folders)
    keys = set(re.findall(r'"(\w+)"(?:: |\] = )', text))
    answered = [one for one in dataclasses.fields(ModelSetup) if one.name in keys]
    return sum(len(dataclasses.fields(kind)) for kind in kinds) + len(answered)


def entered(name: str) -> dict[str, int]:
    """Files and functions that an estimate enters, by a process of its own."""
    program = [sys.executable, "-c", PROGRAM.format(fields=dict(PLANS[name]))]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    kinds = [f"{what}, {how}" for how in ("cold", "warm") for what in ("files", "functions")]
    counts = map(int, done.stdout.split())
    return {f"{name}: {kind}": count for kind, count in zip(kinds, counts, strict=True)}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    found = size() | {"fields of a framework": framework_fields()}
    for plan in PLANS:
        found |= entered(plan)
    for what, count in found.items():
        print(f'    "{what}": {count:_},')
