"""Figures are replayed while nothing that decides them changes, and computed anew otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evidence
from evidence import ROOT, Evidence
from shares import HEAVY, SHARED, heaviest_first, room

STEP = "from planner.near import SIZE\nfrom planner.formulas import lora, sums\n"
KINDS = {f"case {number}": "even" if number % 2 == 0 else "odd" for number in range(16)}


@pytest.fixture(autouse=True)
def _own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sources and figures of a repository of the test's own; nothing computed so far."""
    for name, text in (
        ("planner/__init__.py", "from planner import far\n"),
        ("planner/step.py", STEP),
        ("planner/near.py", "def later():\n    import accuracy.deep\nSIZE = 1\n"),
        ("planner/far.py", "SIZE = 1\n"),
        ("planner/formulas/sums.py", "SIZE = 1\n"),
        ("planner/formulas/lora.py", "SIZE = 1\n"),
        ("planner/catalog/gpus.json", "[]"),
        ("accuracy/deep.py", "SIZE = 1\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for name, value in (
        ("ROOT", tmp_path),
        ("FOLDER", tmp_path / "tests" / "evidence"),
        ("full", False),
        ("gathered", {}),
        ("names", {}),
    ):
        monkeypatch.setattr(evidence, name, value)
    (tmp_path / "tests").mkdir()


@pytest.fixture
def forget() -> Any:
    """Begin anew, as the next run does."""

    def clear() -> None:
        evidence.sources_of.cache_clear()
        evidence.files_of.cache_clear()
        evidence._path.cache_clear()
        evidence._read.cache_clear()
        evidence.gathered.clear()

    clear()
    yield clear
    clear()


def family() -> Evidence:
    return Evidence("some", of=("planner.step",), kinds=KINDS)


def ask(found: Evidence, inputs: Any = 0, figure: int = 7) -> dict[str, int]:
    """Every case's figures, and which were computed."""
    computed: dict[str, int] = {}

    def compute(case: str) -> Callable[[], int]:
        return lambda: computed.setdefault(case, figure)

    for case in KINDS:
        assert found.figures(case, inputs, compute(case)) == figure
    return computed


def committed(forget: Callable[[], None]) -> None:
    ask(family())
    evidence.write()
    forget()


def test_without_a_file_everything_is_computed(forget: Callable[[], None]) -> None:
    assert len(ask(family())) == len(KINDS)


def test_an_eighth_of_each_kind_is_computed_and_the_rest_replayed(
    forget: Callable[[], None],
) -> None:
    committed(forget)
    computed = ask(family())
    assert sorted(KINDS[case] for case in computed) == ["even"] + ["odd"]


def test_changed_inputs_are_computed(forget: Callable[[], None]) -> None:
    committed(forget)
    assert len(ask(family(), inputs=1)) == len(KINDS)


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ("planner/step.py", True),
        ("planner/near.py", True),
        ("accuracy/deep.py", True),
        ("planner/far.py", False),
        ("planner/formulas/sums.py", False),
        ("planner/formulas/lora.py", True),
    ],
)
def test_a_changed_source_counts_if_the_figures_come_from_it(
    changed: str, counts: bool, forget: Callable[[], None], tmp_path: Path
) -> None:
    committed(forget)
    path = tmp_path / changed
    path.write_text('"""Words."""\n' + path.read_text("utf-8") + "# more words\n", "utf-8")
    forget()
    assert len(ask(family())) == 2
    forget()
    path.write_text(path.read_text("utf-8") + "MORE = 2\n", "utf-8")
    assert len(ask(family())) == (len(KINDS) if counts else 2)


@pytest.mark.parametrize("changed", ["planner/formulas/sums.py", "planner/catalog/gpus.json"])
def test_all_of_the_closed_form_and_its_data_count_where_it_computes(
    changed: str, forget: Callable[[], None], tmp_path: Path
) -> None:
    def closed() -> Evidence:
        return Evidence("some", of=("planner.step",), kinds=KINDS, closed_form=True)

    ask(closed())
    evidence.write()
    forget()
    assert len(ask(closed())) == 2
    forget()
    (tmp_path / changed).write_text("[1]", "utf-8")
    assert len(ask(closed())) == len(KINDS)


def test_what_is_no_longer_replayed_is_counted(forget: Callable[[], None]) -> None:
    committed(forget)
    ask(family())
    assert evidence.outdated() == {}
    forget()
    ask(family(), inputs=1)
    assert evidence.outdated() == {"some": len(KINDS)}


def test_another_version_of_a_library_counts(
    forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(forget)
    monkeypatch.setattr(evidence.metadata, "version", lambda name: "9.9")
    assert len(ask(family())) == len(KINDS)


def test_a_full_run_replays_nothing_and_writes_what_it_found(
    forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    committed(forget)
    monkeypatch.setattr(evidence, "full", True)
    monkeypatch.delitem(KINDS, "case 15")
    assert len(ask(family(), figure=8)) == len(KINDS)
    evidence.write()
    written = json.loads((tmp_path / "tests" / "evidence" / "some.json").read_text("utf-8"))
    assert written.keys() == KINDS.keys()  # a case that is gone is gone from the file
    assert {row["figures"] for row in written.values()} == {8}


def test_a_figure_that_is_not_the_committed_one_is_noticed(forget: Callable[[], None]) -> None:
    committed(forget)
    for live in family()._live:
        with pytest.raises(AssertionError, match="scripts/test --full --write-evidence"):
            family().figures(live, 0, lambda: 8)


def test_another_processor_may_be_a_little_apart(forget: Callable[[], None]) -> None:
    def near() -> Evidence:
        return Evidence("near", of=("planner.step",), kinds=KINDS, within=5e-4)

    for case in KINDS:
        near().figures(case, 0, lambda: {"phase": 10_000, "name": "x"})
    evidence.write()
    forget()
    (live, *_) = near()._live
    near().figures(live, 0, lambda: {"phase": 10_004, "name": "x"})
    for wrong in ({"phase": 10_006, "name": "x"}, {"phase": 10_000, "name": "y"}, {}):
        with pytest.raises(AssertionError, match="is not what tests/evidence/near.json says"):
            near().figures(live, 0, lambda: wrong)  # noqa: B023


def test_a_case_has_one_name_and_is_of_its_family(forget: Callable[[], None]) -> None:
    found = family()
    found.figures("case 1", 0, lambda: 7)
    with pytest.raises(AssertionError, match="two cases are called case 1"):
        found.figures("case 1", 1, lambda: 7)
    with pytest.raises(AssertionError, match="none of its cases"):
        found.figures("another", 0, lambda: 7)


def test_a_module_that_has_moved_is_not_left_out(forget: Callable[[], None]) -> None:
    with pytest.raises(AssertionError, match=r"'planner\.gone'.* have moved"):
        Evidence("some", of=("planner.step", "planner.gone"), kinds=KINDS)


def test_the_closed_form_is_where_it_is_left_out() -> None:
    for module in (*evidence.CLOSED_FORM, *evidence.READ):
        place = ROOT / module.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").exists(), f"{module} has moved"


def test_rooms_stay_together_and_the_heaviest_come_first() -> None:
    assert room("tests/browser/test_walks.py::test_x[a::b]") == "tests/browser/"
    assert room("tests/browser/test_trial_real.py::test_x") == "tests/browser/test_trial"
    assert room("tests/plan/test_link.py::test_x") == "tests/plan/test_link.py"
    places = [heaviest_first(f"{path}::test") for path in (*HEAVY, "tests/test_cost.py")]
    assert places == sorted(set(places))
    for path in (*HEAVY, *SHARED):
        assert list(ROOT.glob(f"{path}*")), f"{path} has moved: tests/shares.py"
