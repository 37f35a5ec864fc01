"""The distilled tables: whole, licensed, small, and read only when asked."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from planner import kernels
from planner.catalog.gpu_catalog import gpu, gpus
from planner.kernels import attention, products, tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "planner" / "catalog" / "kernels"
INDEX = json.loads((FOLDER / "index.json").read_text("utf-8"))


@pytest.mark.parametrize("card", INDEX)
def test_a_table_is_what_was_distilled(card: str) -> None:
    found = hashlib.sha256()
    with np.load(FOLDER / f"{card}.npz", allow_pickle=False) as held:
        for name in sorted(held.files):
            array = held[name]
            assert array.dtype in (np.float16, np.int32, np.int64)
            found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            found.update(array.tobytes())
            if array.dtype == np.float16:
                # Half a microsecond to ten seconds.
                known = array[~np.isnan(array)].astype(float)
                assert known.size and known.min() > -7.6 and known.max() < 9.3
    assert found.hexdigest() == INDEX[card]["sha256"]


def test_every_file_belongs_to_a_card_of_the_catalog() -> None:
    cards = {path.stem for path in FOLDER.glob("*.npz")}
    assert cards == set(INDEX) and len(cards) == 9
    assert cards <= {card.key for card in gpus()}
    names = {path.name for path in FOLDER.iterdir()} - {f"{card}.npz" for card in cards}
    assert names == {"LICENSE", "NOTICE.md", "index.json"}


def test_licence_copyright_and_changes_ship_beside_them() -> None:
    licence, notice = ((FOLDER / name).read_text("utf-8") for name in ("LICENSE", "NOTICE.md"))
    assert re.search(r"Apache License\s+Version 2\.0, January 2004", licence)
    assert "END OF TERMS AND CONDITIONS" in licence
    assert "Copyright (c) 2025-2026 NVIDIA CORPORATION" in notice
    assert "Changes made here" in notice and "aiconfigurator-core` 0.12.0" in notice


def test_they_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_500_000


def test_every_card_with_peaks_has_tables_of_someone() -> None:
    for card in gpus():
        known = (card.bf16_flops_per_second or card.fp16_flops_per_second) is not None
        assert (kernels.tables_of(card) is not None) == known, card.key


def test_importing_reads_no_table_and_no_reader_of_the_wheel() -> None:
    program = (
        "import sys, planner, planner.kernels\n"
        "from planner.kernels import tables\n"
        "print(tables.arrays.cache_info().currsize, tables._index.cache_info().currsize)\n"
        "print([m for m in ('pandas', 'pyarrow', 'torch', 'scipy') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["0 0", "[]"]


@pytest.mark.parametrize("card", INDEX)
def test_rows_that_are_left_out_are_found_between_their_neighbours(card: str) -> None:
    """Published work reaches 7 to 15 per cent on shapes that it left out."""
    grid = products.grid(card, "bf16")
    logs, shares = grid.logs[0], grid.shares
    part = ((logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2]))[:, None, None]
    between = shares[:-2] * (1 - part) + shares[2:] * part
    assert np.median(np.abs(np.expm1(shares[1:-1] - between))) < 0.07


def test_holes_are_filled_and_known_points_kept() -> None:
    for card in INDEX:
        for grid in (products.grid(card, "bf16"), attention.grid(card, "decode", "bf16")):
            assert np.isfinite(grid.shares).all()
            assert grid.shares.max() <= 0.0
    # Never measured: 2,048 sequences of 8,192 positions; they take the share of fewer.
    grid = attention.grid("h100-80gb", "decode", "bf16")
    many, fewer = (np.searchsorted(grid.axes[2], 8 * count) for count in (2048, 32))
    long = np.searchsorted(grid.axes[3], 8192)
    assert np.isnan(grid.milliseconds[1, 3, many, long])
    assert not np.isnan(grid.milliseconds[1, 3, fewer, long])
    assert grid.shares[1, 3, many, long] == pytest.approx(grid.shares[1, 3, fewer, long], abs=0.05)


def test_the_document_is_of_these_tables() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text("utf-8")
    for card in INDEX:
        size = (FOLDER / f"{card}.npz").stat().st_size
        assert re.search(rf"^\| {card} \| .* \| {size:,} \|", text, re.M), card


def test_an_explanation_shows_the_nearest_rows() -> None:
    sizes = {"inner": 4096, "outer": 4096, "dtype": "bf16"}
    found = kernels.explain("products", gpu("h100-80gb"), rows=4000, **sizes)
    assert found is not None
    nearest = found.rows[0]
    assert nearest.sizes == {"rows": 4096, "outer": 4096, "inner": 4096}
    assert nearest.milliseconds == pytest.approx(0.166025784, rel=5e-3)
    assert nearest.share == pytest.approx(2 * 4096**3 / 989e12 / 0.166025784e-3, rel=5e-3)
    assert found.limit == "compute" and found.stretch == 1.0 and not found.benchmark
    assert found.seconds == found.roofline_seconds / found.share
    assert found.tables == kernels.tables_of(gpu("h100-80gb")) and "0.12.0" in found.source


def test_an_explanation_of_experts_names_measured_shapes() -> None:
    shape = {"hidden": 2048, "expert_intermediate": 768, "experts": 128, "experts_per_token": 8}
    found = kernels.explain("experts", gpu("h100-80gb"), tokens=4096, **shape, dtype="bf16")
    assert found is not None
    assert found.rows[0].sizes == {"tokens": 4096, **shape}
    assert found.rows[0].milliseconds == pytest.approx(1.0297472, rel=5e-3)


def test_a_lender_is_asked_at_a_stretched_size() -> None:
    found = kernels.explain("products", gpu("l4"), rows=8, inner=4096, outer=4096, dtype="bf16")
    assert found is not None
    assert found.stretch == pytest.approx(864 / 300)
    assert {row.sizes["outer"] for row in found.rows} == {10240, 12288}


def test_a_borrowers_peak_is_what_its_largest_products_reach_of_it() -> None:
    """A 4090's tensor cores run at half rate and reach it; an L40S's wait for power."""
    sizes = {"rows": 8192, "inner": 8192, "outer": 8192}
    found = kernels.explain("products", gpu("rtx-4090"), **sizes, dtype="bf16")
    lent = kernels.explain(
        "products", gpu("l40s"), **{**sizes, "outer": 8192 * 864 / 1008}, dtype="bf16"
    )
    assert found is not None and lent is not None
    gain = (165.3 / 165.2) / (269.2 / 362.05)
    assert found.gain == pytest.approx(gain) and lent.gain == 1.0
    assert found.roofline_seconds == pytest.approx(2 * 8192**3 / (165.2e12 * gain))
    assert found.share == pytest.approx(lent.share)
    assert found.seconds == pytest.approx(2 * 8192**3 / 165.2e12 / gain / lent.share)
    # What memory limits is no quicker for it, nor are 8 bits, of which nobody published any.
    thin = kernels.explain("products", gpu("rtx-4090"), **{**sizes, "rows": 1}, dtype="bf16")
    assert thin is not None and thin.limit == "bandwidth"
    assert thin.roofline_seconds == pytest.approx(2 * (8192**2 + 2 * 8192) / 1008e9)
    eight = kernels.explain("products", gpu("rtx-4090"), **sizes, dtype="fp8")
    assert eight is not None
    assert eight.roofline_seconds == pytest.approx(2 * 8192**3 / 330.3e12)


@pytest.mark.parametrize("key", ["rtx-6000-ada", "mi300x"])
def test_a_peak_stays_where_nobody_published_what_is_reached(key: str) -> None:
    found = kernels.explain("products", gpu(key), rows=8192, inner=8192, outer=8192, dtype="bf16")
    assert found is not None and found.gain == 1.0


def test_no_card_of_the_wheel_gated_its_experts_differently() -> None:
    """Nemotron's experts have two products since vLLM 0.24, and stand in no table of three."""
    for card in INDEX:
        if INDEX[card]["version"] == "vLLM 0.24.0":
            shapes = {tuple(row) for row in tables.arrays(card)["experts_bf16_shapes"].tolist()}
            assert not {(2688, 1856, 128, 6), (2048, 5120, 512, 22)} & shapes
