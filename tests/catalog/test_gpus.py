from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from planner import catalog
from planner.catalog import gpu_catalog, schema
from planner.catalog.multiprocessors import multiprocessors
from planner.catalog.schema import CatalogError, GpuFile
from planner.estimate import estimate
from planner.plan import Plan, facts, try_plan
from planner.units import GIB, MIB

FILE = GpuFile.model_validate_json((files("planner.catalog") / "gpus.json").read_bytes())

UNSUPPORTED = {
    "gaudi-2",
    "gaudi-3",
    "gb300-288gb",
    "h200-nvl-141gb",
    "m3-ultra-512gb",
    "m4-max-128gb",
}


def test_every_row_is_a_card_and_six_are_without_usable_bytes() -> None:
    assert [card.key for card in catalog.gpus()] == [row.key for row in FILE.gpus]
    assert {card.key for card in catalog.gpus() if card.budget_bytes is None} == UNSUPPORTED


def test_keys_are_the_ones_that_links_carry() -> None:
    keys = {card.key for card in catalog.gpus()}
    assert keys >= {
        "h100-80gb", "h100-80gb-pcie", "h100-nvl-94gb", "a100-80gb", "a100-80gb-pcie", "a100-40gb",
        "h200-141gb", "b200-180gb", "rtx-4090", "rtx-5090", "rtx-a6000", "l40s", "l4", "t4",
        "a10g", "v100-16gb", "mi300x",
    }  # fmt: skip
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


@pytest.mark.parametrize(
    ("key", "gib"), [("h100-80gb", 79.11), ("h200-141gb", 139.8), ("a10g", 22.06)]
)
def test_the_budget_is_the_least_torch_reported_and_not_the_sticker(key: str, gib: float) -> None:
    assert catalog.gpu(key).require_budget_bytes() == int(gib * GIB)


@pytest.mark.parametrize("row", FILE.gpus, ids=lambda row: row.key)
def test_a_budget_lies_between_reason_and_the_drivers_total(row: object) -> None:
    card = catalog.gpu(row.key)  # type: ignore[attr-defined]
    entry = next(each for each in FILE.gpus if each.key == card.key)
    if card.budget_bytes is None:
        assert card.unsupported_reason == "unsupported: nobody has reported its usable bytes"
        return
    assert 0.9 * entry.memory_marketed_gb * GIB < card.budget_bytes
    assert card.budget_bytes <= 1.08 * entry.memory_marketed_gb * GIB
    if entry.memory_driver is not None:
        assert card.budget_bytes <= entry.memory_driver.bytes
        assert entry.memory_driver.bytes == entry.memory_driver.mib * MIB
    seen = [o.gib or (o.mib or 0) / 1024 for o in entry.memory_torch_observed]
    assert card.budget_bytes <= (max(seen) + 0.01) * GIB


@pytest.mark.parametrize("row", FILE.gpus, ids=lambda row: row.key)
def test_every_figure_has_a_source_and_a_date(row: object) -> None:
    entry = next(each for each in FILE.gpus if each is row)
    assert entry.sources
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", entry.date)
    if entry.memory_torch_bytes is not None:
        assert entry.memory_torch_observed
    if entry.price is not None:
        assert entry.price.date and entry.price.source
        assert 0 < entry.price.usd_per_hour_low <= entry.price.usd_per_hour_high


def test_a_card_without_usable_bytes_says_what_to_type() -> None:
    card = catalog.gpu("h200-nvl-141gb")
    with pytest.raises(ValueError, match=r"^gpu: .*nobody has reported.*gpu_bytes"):
        card.require_budget_bytes()
    typed = card.with_budget(140 * GIB)
    assert typed.require_budget_bytes() == 140 * GIB
    assert typed.bf16_flops_per_second == 835e12
    assert card.budget_bytes is None


def test_rates_and_links_in_base_units() -> None:
    card = catalog.gpu("h100-80gb")
    assert card.flops_per_second("bf16") == 989e12
    assert card.flops_per_second("fp8") == 1979e12
    assert card.bandwidth_bytes_per_second == 3350e9
    assert card.interconnect_bytes_per_second == 900e9
    assert card.compute_capability == "9.0"
    assert catalog.gpu("v100-16gb").flops_per_second("bf16") is None
    assert catalog.gpu("rtx-4090").interconnect_bytes_per_second is None
    with pytest.raises(ValueError, match="int4"):
        card.flops_per_second("int4")


def test_a_card_of_two_dies_is_planned_as_the_two_devices_software_sees() -> None:
    die = catalog.gpu("mi250x")
    assert die.require_budget_bytes() < 64 * GIB
    assert die.flops_per_second("bf16") == 191.5e12
    assert die.bandwidth_bytes_per_second == 3277e9 / 2


def test_a_custom_card_knows_its_bytes_and_nothing_else() -> None:
    card = catalog.custom_gpu(10 * GIB)
    assert card.require_budget_bytes() == 10 * GIB
    assert card.flops_per_second("bf16") is None
    assert card.price is None
    for bad in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="gpu_bytes"):
            catalog.custom_gpu(bad)  # type: ignore[arg-type]


def test_an_unknown_key_names_the_closest() -> None:
    with pytest.raises(ValueError, match=r"^gpu: 'h100'.*h100-80gb"):
        catalog.gpu("h100")
    with pytest.raises(ValueError, match=r"^gpu: 'zzzzzz' is not in the catalog\.$"):
        catalog.gpu("zzzzzz")


def test_a_misspelt_field_in_a_row_is_an_error() -> None:
    data = json.loads((files("planner.catalog") / "gpus.json").read_bytes())
    data["gpus"][0]["bandwith"] = 1
    with pytest.raises(ValueError, match="bandwith"):
        GpuFile.model_validate(data)


ROW = {
    **FILE.gpus[0].model_dump(mode="json"),
    "key": "made-up-64gb",
    "name": "Made-up card",
    "memory_torch_bytes": 64 * 10**9,
    "multiprocessors": {"count": 96, "source": "this test"},
}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Writes a catalog of cards of its own for as long as the test runs."""
    written = json.loads((files("planner.catalog") / "gpus.json").read_bytes())
    here = shutil.copytree(Path(str(files("planner.catalog"))), tmp_path / "catalog")

    def forget() -> None:
        gpu_catalog._by_key.cache_clear()
        facts._facts.cache_clear()

    def write(*added: dict[str, Any]) -> None:
        changed = {**written, "gpus": [*written["gpus"], *added]}
        (here / "gpus.json").write_text(json.dumps(changed))
        monkeypatch.setattr(schema, "files", lambda _: here)
        forget()

    yield write
    monkeypatch.undo()
    forget()


def test_a_row_is_all_that_a_new_card_needs(rows: Callable[..., None]) -> None:
    rows(ROW)
    plan = Plan(gpu="made-up-64gb", liger=True, model="Qwen/Qwen3-0.6B", sharding="fsdp2")
    assert estimate(plan).budget_bytes == 64 * 10**9
    assert multiprocessors("made-up-64gb") == 96


def test_a_key_that_stands_twice_is_said_with_its_file(rows: Callable[..., None]) -> None:
    rows({**ROW, "key": "h100-80gb"})
    with pytest.raises(CatalogError, match=r"gpus\.json: 'h100-80gb' stands twice"):
        Plan()


def test_a_row_that_says_nothing_of_its_memory_is_said_with_its_place(
    rows: Callable[..., None],
) -> None:
    rows({key: value for key, value in ROW.items() if key != "memory_torch_bytes"})
    place = rf"gpus\.json: gpus\.{len(FILE.gpus)}\.memory_torch_bytes: "
    with pytest.raises(CatalogError, match=place):
        try_plan({})
