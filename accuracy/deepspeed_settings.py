"""Whether every key of a DeepSpeed configuration is a row of our table or known to move nothing.

``python -m accuracy.deepspeed_settings FOLDER``, with the folder of a DeepSpeed package (an
unpacked source distribution is enough: it is parsed, not imported). DeepSpeed is none of our
requirements.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from planner.launch.huggingface.deepspeed import PREFIX, ROWS
from planner.launch.huggingface.table import no_effect

MODELS = {
    "runtime/zero/config.py": {"DeepSpeedZeroConfig": "zero_optimization."},
    "runtime/zero/offload_config.py": {
        "DeepSpeedZeroOffloadParamConfig": "zero_optimization.offload_param.",
        "DeepSpeedZeroOffloadOptimizerConfig": "zero_optimization.offload_optimizer.",
    },
    "runtime/precision_config.py": {"DeepSpeedBF16Config": "bf16.", "DeepSpeedFP16Config": "fp16."},
}
"""Pydantic classes whose fields are keys, and where those nest."""
READ = (
    *("runtime/config.py", "runtime/zero/config.py", "runtime/precision_config.py"),
    *("runtime/swap_tensor/aio_config.py", "runtime/activation_checkpointing/config.py"),
    *("comm/config.py", "monitor/config.py"),
    *("profiling/config.py", "autotuning/config.py", "utils/config.py"),
    *("runtime/tensor_parallel/config.py", "runtime/checkpoint_engine/config.py"),
    "runtime/model_checkpointing/config.py",
)
"""Files that take keys of the first level out of the dictionary."""
NAMES = re.compile(r"""^([A-Z_0-9]+) *= *["']([a-z_0-9]+)["']""", re.M)


def keys(folder: Path) -> Iterator[str]:
    """Every key that the source takes."""
    constants = {
        name: value
        for file in folder.rglob("*.py")
        if file.name in ("constants.py", "config.py", "precision_config.py")
        for name, value in NAMES.findall(file.read_text("utf-8"))
    }
    for file in READ:
        if (folder / file).exists():
            tree = ast.parse((folder / file).read_text("utf-8"))
            yield from _first_level(tree, constants)
    for file, classes in MODELS.items():
        for node in ast.walk(ast.parse((folder / file).read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name in classes:
                yield from (classes[node.name] + name for name in _fields(node))


def _first_level(tree: ast.AST, constants: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = node.func
            if isinstance(called, ast.Name) and called.id == "get_scalar_param":
                asked, key = node.args[0], node.args[1]
            elif isinstance(called, ast.Attribute) and called.attr == "get":
                asked, key = called.value, node.args[0]
            else:
                continue
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            asked, key = node.comparators[0], node.left
            if isinstance(asked, ast.Call):  # .keys()
                asked = getattr(asked.func, "value", asked)
        else:
            continue
        if getattr(asked, "id", getattr(asked, "attr", "")) in ("param_dict", "_param_dict"):
            if isinstance(key, ast.Constant):
                yield str(key.value)
            elif isinstance(key, ast.Name) and key.id in constants:
                yield constants[key.id]


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            given = line.value.keywords if isinstance(line.value, ast.Call) else []
            alias = [word.value for word in given if word.arg == "alias"]
            yield ast.literal_eval(alias[0]) if alias else line.target.id


def left_out(folder: Path) -> list[str]:
    """Keys that we do not know."""
    rows = {row.name.removeprefix(PREFIX) for row in ROWS}
    nothing = {name.removeprefix(PREFIX) for name in no_effect() if name.startswith(PREFIX)}
    sections = {name.rpartition(".")[0] for name in rows} | {"zero_optimization", "optimizer"}
    return sorted({*keys(folder)} - rows - nothing - sections)


if __name__ == "__main__":
    missing = left_out(Path(sys.argv[1]))
    print("\n".join(missing) or "every key is known")
    sys.exit(bool(missing))
