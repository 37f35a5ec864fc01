"""Who may import which library, and that importing the planner stays light.

Which part of the planner may know which other stands in :mod:`test_floors`.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "planner"

HEAVY = (
    *("torch", "transformers", "streamlit", "pandas", "altair", "huggingface_hub"),
    *("sqlalchemy", "alembic", "ray", "sklearn", "faiss", "pyarrow"),
)

HISTORY = """
import planner.trial.history, planner.trial.history.exchange, planner.trial.history.intake
import planner.trial.evidence.correction, planner.trial.evidence.stated_error
for name in [name for name in sys.modules if name.partition(".")[0] == "sqlalchemy"]:
    del sys.modules[name]
"""
"""The history loads SQLAlchemy, and none of the others."""

LIGHT = [
    "import planner",
    "from planner import Plan, estimate; estimate(Plan())",
    "from planner import sweep",
    "from planner.__main__ import main; main(['sampling', 'plan', 'doc-003@1'])",
    "import planner.dryrun.ask.port, planner.dryrun.ask.finding, planner.dryrun.ask.document",
    "import planner.trial.ask.process, planner.trial.ask.request, planner.trial.ask.supervisor",
    "import planner.trial.evidence.calibration, planner.trial.evidence.correction",
    "import planner.trial.cluster.dispatch, planner.trial.cluster.stream",
    HISTORY,
    "import planner.benchmark.ask.process, planner.benchmark.ask.archive",
    "import planner.benchmark.ask.words, planner.benchmark.ask.derivation",
    "import planner.cli.benchmark",
    "import planner.sampling.ask.process, planner.sampling.ask.weights, planner.cli.sampling_run",
    "from planner.__main__ import main; main(['estimate', 'grpo-7b@1'])",
    "from planner.__main__ import main; main(['compare', 'grpo-7b@1', 'ppo-7b@1'])",
    "import planner.report, planner.cli.report",
]
"""Statements that load none of ``HEAVY``."""


@cache
def _modules() -> tuple[tuple[str, Path], ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return tuple(found)


@cache
def _imports(path: Path) -> tuple[tuple[str, str], ...]:
    """Module and name of everything a file imports, functions' imports included; read once.

    What is imported for its type alone is no import when the program runs.
    """
    return tuple(_read_imports(path))


def _read_imports(path: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    typed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            yield from ((node.module, alias.name) for alias in node.names)


def _exported(module: str) -> bool:
    """Text of programs: read and written out, never imported (a folder ``program/``, pieces)."""
    return "program" in module.split(".")[:-1] or module.startswith("launch.pieces.")


def _may_know_torch(module: str) -> bool:
    """The code of the steps, what stands under a folder ``run/`` (a process of its own), text."""
    part, *rest = module.split(".")
    if _exported(module):
        return True
    if part == "methods":
        return "step" in rest
    return part == "steps" or "run" in rest[:-1]


@pytest.mark.parametrize(("module", "path"), [(m, p) for m, p in _modules() if m])
def test_torch_stays_in_the_steps_and_the_dry_runs_process(module: str, path: Path) -> None:
    if not _may_know_torch(module):
        packages = {imported.split(".")[0] for imported, _ in _imports(path)}
        assert not {"torch", "transformers", "peft"} & packages


def test_programs_import_pieces_alone_and_nothing_imports_either() -> None:
    programs = {module for module, _ in _modules() if _exported(module)}
    assert len(programs) > 4
    for module, path in _modules():
        for imported, name in _imports(path):
            own = imported.removeprefix("planner.")
            if module in programs:
                assert imported == own or own in programs, f"{module} imports {imported}"
            else:
                assert not {own, f"{own}.{name}"} & programs, f"{module} imports {imported}"


def test_only_the_ui_knows_streamlit() -> None:
    for module, path in _modules():
        if module.split(".")[0] != "ui":
            assert not any(name.split(".")[0] == "streamlit" for name, _ in _imports(path)), module


def test_only_the_history_knows_sql() -> None:
    for module, path in _modules():
        if not module.startswith("trial.history"):
            packages = {name.split(".")[0] for name, _ in _imports(path)}
            assert not {"sqlalchemy", "alembic", "psycopg", "sqlite3"} & packages, module


def test_only_the_cluster_knows_ray() -> None:
    for module, path in _modules():
        known = module in ("trial.cluster.client", "sampling.run.ray_data") or _exported(module)
        if not known:
            assert not any(name.split(".")[0] == "ray" for name, _ in _imports(path)), module


def test_only_the_sampling_pipelines_processes_know_what_searches() -> None:
    for module, path in _modules():
        packages = {name.split(".")[0] for name, _ in _imports(path)}
        if not module.startswith("sampling.run") and not _exported(module):
            assert not {"sklearn", "faiss"} & packages, module
            # What a file of weights was made of is read where it is asked for.
            assert "pyarrow" not in packages or module == "sampling.ask.weights", module


def test_a_local_trial_does_not_load_ray() -> None:
    """Libraries that use Ray where it is installed are not to find a use for it here."""
    check = "import sys, planner.trial.run.runner, planner.cli.trial; print('ray' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_no_module_is_a_drawer_for_anything() -> None:
    for module, _ in _modules():
        assert not {"utils", "util", "common", "helpers", "misc"} & set(module.split("."))


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str] | str]:
    """The packages that each of ``LIGHT`` loads: one process, which forks for each."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "loaded_modules.py")],
        input=json.dumps(LIGHT),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("code", LIGHT)
def test_importing_the_planner_loads_nothing_heavy(
    code: str, loaded: dict[str, list[str] | str]
) -> None:
    packages = loaded[code]
    assert "planner" in packages and not isinstance(packages, str), packages
    assert sorted(set(HEAVY) & set(packages)) == []


def test_public_names_are_sorted_and_exist() -> None:
    import planner

    assert planner.__all__ == sorted(planner.__all__)
    for name in planner.__all__:
        assert getattr(planner, name).__doc__, name


def test_functions_win_over_modules_of_the_same_name() -> None:
    import planner.estimate  # noqa: F401  # would put the module in the function's place
    import planner.sweeps.table  # noqa: F401
    from planner import estimate, sweep

    assert callable(estimate) and callable(sweep)
