"""What each way to shard is stands in one row; nothing else tells its name from another's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.plan import Plan, choices
from planner.values.sharding import SHARDINGS, sharding_of

PACKAGE = Path(__file__).resolve().parent.parent / "planner"

FACTS = {
    # name: FSDP, ZeRO, replicated, DDP, gathers, streams
    "none": (0, 0, True, False, False, False),
    "ddp": (0, 0, True, True, False, False),
    "zero1": (0, 1, False, False, False, False),
    "zero2": (0, 2, False, False, False, False),
    "zero3": (0, 3, False, False, True, True),
    "fsdp1": (1, 0, False, False, True, False),
    "fsdp2": (2, 0, False, False, True, True),
}


def test_every_value_of_the_field_has_its_row() -> None:
    assert tuple(SHARDINGS) == choices("sharding")
    assert {
        name: (one.fsdp, one.zero, one.replicated, one.ddp, one.gathers, one.streams)
        for name, one in SHARDINGS.items()
    } == FACTS
    assert [name for name, one in SHARDINGS.items() if one.alone] == ["none"]
    assert sharding_of(Plan(gpus=8, sharding="zero2")).zero == 2


STEMS = ("fsdp", "zero", "ddp")
"""What names begin with."""


def compared(path: Path) -> Iterator[str]:
    """Comparisons with a value's name; what is set or looked up by one is none."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        begins = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".startswith")
        asked = begins or isinstance(node, ast.Compare)
        text = ast.unparse(node) if asked else ""
        names = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)} if asked else set()
        named = "sharding" in text and "none" in names and ".free" not in text
        if names & (SHARDINGS.keys() - {"none"}) or named or (begins and names & {*STEMS}):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}: {text}"


OF_VALUES = {"catalog/spot.py", "wording/fields.py"}
"""Ask for the values of a question that was kept, before there is a plan; how words are written."""


def test_nobody_asks_for_a_name() -> None:
    files = (path for path in PACKAGE.rglob("*.py") if path.name != "sharding.py")
    found = [one for path in files for one in compared(path)]
    assert [one for one in found if one.partition(":")[0] not in OF_VALUES] == []


@pytest.mark.parametrize(
    "text", ['x = plan.sharding == "ddp"', 'x = p.sharding.startswith("zero")',
             'x = plan.sharding in ("none", "fsdp2")', 'x = plan.sharding != "none"',
             'x = kind.startswith("fsdp")'],
)  # fmt: skip
def test_a_comparison_is_seen(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "rules.py").write_text(text)
    assert list(compared(tmp_path / "rules.py"))
