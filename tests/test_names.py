"""A method's or a framework's name stands in its own room, and nowhere else in the product.

What compares names elsewhere would have to hear of every new one. Rooms are the folder of the
method or framework, and the file of a pair, which is named after both.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planner.plan.frameworks import complaint, frameworks
from planner.plan.methods import aliases, folder_of, methods, variations
from planner.values.field import field
from planner.values.method import Method, OwnFields

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    *sorted((ROOT / "planner").rglob("*.py")),
    *sorted((ROOT / "pages").glob("*.py")),
    ROOT / "app.py",
]

HISTORY = ROOT / "planner" / "plan" / "migrations.py"
"""What words of old links meant, for ever: data, as released presets are."""


TOLD = ("OpenRLHF", "openrlhf")
"""As people write a framework that has no folder yet, and as a folder would be called."""


def rooms(name: str) -> tuple[str, ...]:
    """Places, as parts of a path, where a name may be written."""
    method = variations()[name].name if name in variations() else aliases().get(name, name)
    if method in methods():
        folder = folder_of(method)
        return f"methods/{folder}/", f"trainers/{folder}.py"
    return f"frameworks/{name}/", f"on_{name}.py"


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and values of the strings of a file that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


FOREIGN = {"Estimator": "name", "Script": "module"}
"""Where the room of a pair says what the framework calls it, which may be a name of ours."""


def foreign(path: Path) -> set[tuple[int, str]]:
    """Lines and values of what a room of a pair says in its framework's words."""
    if "/trainers/" not in path.as_posix() and not path.name.startswith("on_"):
        return set()
    said = [
        given.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for given in node.keywords
        if given.arg == FOREIGN.get(node.func.id)
    ]
    inside = [one for value in said for one in ast.walk(value) if isinstance(one, ast.Constant)]
    return {(one.lineno, str(one.value)) for one in inside}


def strays(path: Path, root: Path = ROOT) -> list[str]:
    names = {*methods(), *aliases(), *variations(), *frameworks()}
    place, theirs = path.as_posix(), foreign(path)
    return [
        f"{path.relative_to(root)}:{line}: {value!r}"
        for line, value in literals(path)
        if value in names
        and not any(room in place for room in rooms(value))
        and (line, value) not in theirs
    ]


def test_names_stand_in_their_rooms() -> None:
    assert [stray for path in FILES if path != HISTORY for stray in strays(path)] == []


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("planner/rules.py", 'x = plan.method == "grpo"', True),
        ("planner/phases/head.py", 'x = {"verl": 1}', True),
        ("planner/methods/ppo/memory.py", 'x = "ppo"', False),
        ("planner/methods/ppo/memory.py", 'x = "sft"', True),
        ("planner/frameworks/trl/trainers/grpo.py", 'x = "grpo"', False),
        ("planner/rules.py", 'def f():\n    """grpo"""', False),
        ("planner/frameworks/verl/trainers/rloo.py", 'x = Estimator(name="grpo")', False),
        ("planner/frameworks/verl/trainers/rloo.py", 'x = Estimator(kind="grpo")', True),
        ("planner/frameworks/verl/trainers/rloo.py", 'x = plan.method == "grpo"', True),
        ("planner/frameworks/verl/overrides.py", 'x = Estimator(name=lambda plan: "grpo")', True),
        ("planner/methods/rloo/on_trl.py", 'x = Script(module="grpo")', False),
    ],
)
def test_a_stray_name_is_seen(tmp_path: Path, place: str, text: str, found: bool) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert bool(strays(path, tmp_path)) is found


def test_a_framework_that_is_not_planned_yet_may_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is a value of plans from then on; what people are told until then is a label."""
    assert "not planned yet" in complaint(TOLD[0]) and "not planned yet" in complaint(TOLD[1])
    assert "not planned yet" not in complaint("nobody's")
    added = {**frameworks(), TOLD[1]: next(iter(frameworks().values()))}
    monkeypatch.setattr(sys.modules[__name__], "frameworks", lambda: added)
    assert [stray for path in FILES if path != HISTORY for stray in strays(path)] == []


OWN_FIELDS = {field: method.name for method in methods().values() for field in method.own_fields}
DOCUMENTS = ROOT / "planner" / "examples", ROOT / "planner" / "ui" / "examples"
"""What documents claim of one method: data, too."""


def stray_fields(path: Path) -> Iterator[str]:
    """A method's own field, read or set outside of its room."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        named = [getattr(node, kind, None) for kind in ("value", "attr", "arg")]
        for name in OWN_FIELDS.keys() & {one for one in named if isinstance(one, str)}:
            own = (*rooms(OWN_FIELDS[name]), f"program/{folder_of(OWN_FIELDS[name])}.py")
            if not any(room in path.as_posix() for room in own):
                yield f"{path.as_posix()}:{getattr(node, 'lineno', 0)}: {name}"


def test_a_methods_own_fields_are_named_in_its_room_alone() -> None:
    """Advice, search and pages ask the method which of them they may change."""
    files = [path for path in FILES if path != HISTORY and not {*path.parents} & {*DOCUMENTS}]
    assert [stray for path in files for stray in stray_fields(path)] == []


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("planner/search/words.py", "x = plan.grade_kl", True),
        ("planner/advice/edits.py", 'x = {"self_certainty": "fused"}', True),
        ("planner/advice/edits.py", "x = plan.changed(reinforce_baseline=1)", True),
        ("planner/methods/grade/memory.py", "x = plan.grade_kl", False),
    ],
)
def test_a_stray_field_is_seen(tmp_path: Path, place: str, text: str, found: bool) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert bool([*stray_fields(path)]) is found


ALONE = {
    "objective": "what meets the vocabulary: every position of a row, or response tokens",
    "texts_per_response": "how many rows of a batch one response is",
    "critics": "which models give values",
    "held_to_reference": "the loss has the reference's log-probs in it",
    "embeds_outside_forward": "the embedding's weight is used outside of forward()",
    "autocasts_adapters": "the dtype in which fp32 adapters compute",
    "second_head_pass": "the head's weight meets a second product with gradient",
}
"""What one method alone sets, each with the physical fact that it names."""
CONTENTS = {
    *("name", "title", "label", "order", "spellings", "variations"),
    *("fields", "refused_elsewhere", "defaults"),
    *("switches", "forms", "edits", "searched", "trade_offs"),
    *("rules", "fact_problems", "without_effect"),
}
"""What it is called, and what of its own is listed: of these each method has its own or none."""


def usual(name: str) -> object:
    found = Method.__dataclass_fields__[name]
    return found.default_factory() if callable(found.default_factory) else found.default


def setting(name: str) -> list[str]:
    """Methods that set a field to something other than the default."""
    return [one.name for one in methods().values() if getattr(one, name) != usual(name)]


def test_what_one_method_alone_sets_names_a_physical_fact() -> None:
    """A value that one method alone sets would be its name in disguise."""
    deciding = Method.__dataclass_fields__.keys() - CONTENTS
    assert deciding > ALONE.keys()
    assert {name for name in deciding if len(setting(name)) == 1} == ALONE.keys()
    assert all(len(fact.split()) > 3 for fact in ALONE.values())


def test_any_methods_own_field_may_stand_in_place_of_kl() -> None:
    class Fields(OwnFields):
        closeness: str = field("none", "Closeness", "How near.", in_place_of="kl")

    value = replace(next(iter(methods().values())), fields=Fields)
    assert value.kl_field == "closeness"
    assert replace(value, fields=None).kl_field == "kl"


def test_no_flag_is_true_for_one_method_only_unless_it_names_a_physical_fact() -> None:
    """A flag that one method alone sets would be its name in disguise."""
    physical = {
        "held_to_reference",  # the loss has the reference's log-probs in it
        "embeds_outside_forward",  # the embedding's weight is used outside of forward()
    }
    flags = [name for name, kind in Method.__annotations__.items() if kind == "bool"]
    assert flags
    for flag in flags:
        having = [method.name for method in methods().values() if getattr(method, flag)]
        assert len(having) != 1 or flag in physical, flag
