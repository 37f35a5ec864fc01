"""A card's benchmark as JSON: strictly read; committed ones decide that card's times and memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks_of_cards import CONSTANTS, H100, ROW, benchmark, commit, forget
from planner import catalog
from planner.catalog import card_benchmark, device_constants
from planner.catalog.card_benchmark import benchmark_json, read_benchmark, speeds_of
from planner.catalog.efficiencies import typical
from planner.catalog.schema import CatalogError
from planner.estimate import estimate
from planner.plan import Plan

PLAN = Plan(gpu="h100-80gb")


def text(**changes: Any) -> str:
    return json.dumps(benchmark(**changes))


def row(**changes: Any) -> dict[str, Any]:
    return {"measured": [{**ROW, **changes}]}


def derived(**changes: Any) -> dict[str, Any]:
    one = {"key": "training-compute", "low": 0.2, "typical": 0.3, "high": 0.4, "rests_on": ""}
    return {"derived": [{**one, **changes}]}


def test_what_is_written_is_read_again() -> None:
    found = read_benchmark(text())
    assert read_benchmark(benchmark_json(found)) == found
    assert speeds_of(found) == H100
    assert speeds_of(read_benchmark(text(derived=[]))) is None


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("", "benchmark: not valid JSON"),
        ("[]", "one JSON object"),
        ("{" * 20, "nested deeper"),
        ("x" * 300_000, "more than 256 KiB"),
        (b"\xff\xfe", "not UTF-8"),
        (text()[:-1] + ', "v": 1}', "'v' stands twice"),
        (text().replace("31.5", "NaN"), "NaN"),
        (text().replace("31.5", "1e999"), "seconds"),
        (text(v=2), "^v: "),
        (text(v="1"), "^v: "),
        (text(source="trial"), "^source: "),
        (text(extra=1), "^extra: "),
        (text(id="../../etc/passwd"), "^id: "),
        (text(created="2026-11-22"), "^created: "),
        (text(seconds="31"), "^seconds: "),
        (text(seconds=-1.0), "^seconds: "),
        (text(versions={"python": "3"}), "versions has no torch"),
        (text(versions={"torch": "2\x1b[2J"}), "^versions.torch: "),
        (text(notes=["é" * 3]), "^notes.0: "),
        (text(notes=["x"] * 201), "^notes: "),
        (text(device={"kind": "cuda", "name": "x", "gpu": "<b>"}), "^device.gpu: "),
        (text(device={"kind": "cpu", "name": "x"}), "no card"),
        (text(measured=[ROW] * 401), "^measured: "),
        (text(**row(seconds=0.5)), "median"),
        (text(**row(share=None)), "share needs the peak"),
        (text(**row(of=None)), "share needs the peak"),
        (text(**row(part="anything")), "^measured.0.part: "),
        (text(**row(samples=True)), "^measured.0.samples: "),
        (text(**row(sizes={"tokens": -1})), "^measured.0.sizes.tokens: "),
        (text(**derived(key="link-bandwidth")), "^derived.0.key: "),
        (text(**derived(low=0.35)), "out of order"),
        (text(**derived(high=1.3)), "outside 0.01 to 1.2"),
        (text(derived=derived()["derived"] * 2), "derived twice"),
        (text(constants={**CONSTANTS, "context_bytes": -1}), "^constants.context_bytes: "),
        (text(constants={**CONSTANTS, "context_bytes": 0.5}), "^constants.context_bytes: "),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_with_its_field(bad: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        read_benchmark(bad)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the catalog's benchmarks are for a test; the real folder again afterwards."""
    with monkeypatch.context() as patched:
        commit(tmp_path, patched)
        yield tmp_path
    forget()


def test_a_file_in_the_folder_is_all_that_a_card_needs(folder: Path) -> None:
    before, other = (estimate(plan) for plan in (PLAN, PLAN.changed(gpu="a100-80gb")))
    (folder / "h100-80gb.json").write_text(text())
    (folder / "README.md").write_text("not a benchmark")
    forget()
    assert catalog.gpu("h100-80gb").speeds == H100
    assert typical("training-compute", catalog.gpu("h100-80gb")) == 0.3
    assert typical("training-compute", catalog.gpu("h100-80gb-pcie")) == 0.45
    after = estimate(PLAN)
    assert "training-compute" in after.seconds_source and "2026-11-22" in after.seconds_source
    assert after.speeds is None, "facts, not something that a link brought"
    assert after.step_seconds != before.step_seconds
    sizes = {term.name: term.bytes for term in after.worst.terms if term.category == "device"}
    # The most of the context, 700 MB with every kernel loaded, and two processes' communicator.
    assert sizes == {"CUDA context": 700_000_000, "NCCL communicators": 400_000_000}
    assert estimate(PLAN.changed(gpu="a100-80gb")).seconds_source == other.seconds_source


def test_what_a_benchmark_did_not_measure_stays_as_published(folder: Path) -> None:
    less = {**CONSTANTS, "context_bytes": None, "loaded_bytes": None, "nccl_bytes": None}
    changes = {"constants": less, **derived(key="decode-bandwidth")}
    (folder / "h100-80gb.json").write_text(text(**changes))
    forget()
    card = catalog.gpu("h100-80gb")
    assert typical("decode-bandwidth", card) == 0.3 and typical("training-compute", card) == 0.45
    assert device_constants.context(card) == device_constants.CUDA_CONTEXT.bounded
    assert device_constants.first_communicator(card) == device_constants.NCCL_FIRST.bounded


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("h100-80gb.json", "{", "benchmarks/h100-80gb.json: benchmark: not valid JSON"),
        ("a100-80gb.json", text(), "benchmarks/a100-80gb.json: it is of h100-80gb"),
        ("h100-80gb.json", text(device={"kind": "cuda", "name": "x"}, derived=[]), "of no card"),
    ],
)
def test_a_damaged_or_misnamed_file_is_refused(
    folder: Path, name: str, content: str, says: str
) -> None:
    (folder / name).write_text(content)
    forget()
    with pytest.raises(CatalogError, match=says):
        catalog.gpu("h100-80gb")


def test_a_card_that_the_catalog_lacks_is_refused(folder: Path) -> None:
    device = {"kind": "cuda", "name": "x", "gpu": "h900"}
    (folder / "h900.json").write_text(text(device=device))
    forget()
    with pytest.raises(CatalogError, match="h900 is no card"):
        catalog.gpus()


def test_every_committed_benchmark_is_read() -> None:
    for key, found in card_benchmark.committed().items():
        assert catalog.gpu(key).speeds == speeds_of(found)
