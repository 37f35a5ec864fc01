"""Scratch of kernels: against a profiler where the CPU runs the same code, else worked by hand."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from head_steps import HIDDEN_IN_KERNEL
from live_bytes import profiled_peak_bytes
from planner.dryrun.run import workspaces
from planner.dryrun.run.workspaces import workspace_bytes, workspace_interval_bytes
from planner.formulas.activations.kernels import EFFICIENT_SCRATCH, _flash_scratch
from planner.formulas.activations.kinds import KINDS
from planner.formulas.logits.pieces import INSIDE_LOGSUMEXP

torch.set_num_threads(1)

FLASH = "aten._scaled_dot_product_flash_attention_backward"
EFFICIENT = "aten._scaled_dot_product_efficient_attention_backward"


def heads_first(heads: int, tokens: int, size: int, item: int = 2) -> tuple[tuple[int, ...], int]:
    return (2, heads, tokens, size), item


@pytest.mark.parametrize("kv_heads", [4, 12])
@pytest.mark.parametrize(("tokens", "head_dim"), [(1024, 128), (1000, 80)])
def test_flash_backward_is_what_the_closed_form_counts(
    kv_heads: int, tokens: int, head_dim: int
) -> None:
    layer: Any = SimpleNamespace(arch=SimpleNamespace(heads=12, kv_heads=kv_heads))
    sizes = dict(
        sequences=2, tokens=tokens, heads=12, kv_heads=kv_heads, head_dim=head_dim, value_bytes=2
    )
    closed = sum(
        KINDS[shape, width].value(copies=1, **sizes)
        for shape, width, _ in _flash_scratch(layer, "value")
    )
    query, key = heads_first(12, tokens, head_dim), heads_first(kv_heads, tokens, head_dim)
    assert workspace_bytes(FLASH, [query, query, key, key]) == closed


@pytest.mark.parametrize("head_dim", [64, 128])
def test_efficient_backward_is_what_the_closed_form_counts_but_for_its_locks(
    head_dim: int,
) -> None:
    sizes = dict(sequences=2, tokens=1024, heads=12, head_dim=head_dim, value_bytes=2)
    closed = sum(
        KINDS[shape, width].value(copies=1, **sizes) for shape, width, _ in EFFICIENT_SCRATCH
    )
    query = heads_first(12, 1024, head_dim)
    table = workspace_bytes(EFFICIENT, [query] * 4, {"compute_capability": "8.0"})
    tiles = 24 * 1024 // head_dim  # square ones
    assert table == closed + 16 * tiles


def test_flash_backward_by_hand() -> None:
    # 1000 rows become 1024, 80 channels 96.
    query, key = heads_first(12, 1000, 80), heads_first(4, 1000, 80)
    sums, accumulator = 4 * 2 * 12 * 1024, 4 * 2 * 12 * 1024 * 96
    expanded = 2 * (2 * 2 * 12 * 1000 * 80)
    assert workspace_bytes(FLASH, [query, query, key, key]) == sums + accumulator + expanded


def test_flash_attn_by_hand() -> None:
    query, key, boundaries = ((3000, 12, 64), 2), ((3000, 12, 64), 2), ((5,), 4)
    lse = ((12, 3000), 4)
    arguments = [query, query, key, key, query, lse, boundaries, boundaries]
    rows = 3000 + 4 * 128
    packed = workspace_bytes("aten._flash_attention_backward", arguments)
    assert packed == 4 * 12 * rows + 4 * 12 * rows * 64
    dense = [((2, 1000, 12, 64), 2)] * 5
    assert workspace_bytes("aten._flash_attention_backward", dense) == 4 * 2 * 12 * 1024 * 65


@pytest.mark.parametrize(
    ("card", "head_dim", "item", "expected"),
    [
        # One tile of 64 by 64 sums for every 64 queries, led by 16 bytes.
        ("9.0", 64, 2, 4 * 24 * 1000 + 24 * 16 * (4 * 64 * 64 + 16)),
        # 128 by 128 where shared memory allows ...
        ("8.0", 128, 2, 4 * 24 * 1000 + 24 * 8 * (4 * 128 * 128 + 16)),
        # ... else 64 by 64, and keys and values in eight parts of 64 rows (200 // 24).
        (
            "8.9",
            128,
            2,
            4 * 24 * 1000 + 24 * (16 * 2 * (4 * 64 * 64 + 16) + 4 * 8 * 64 * (128 + 128)),
        ),
        # Up to 96 channels Ada has a kernel of its own: 128 by 64; elsewhere 80 count as 128.
        ("8.9", 80, 2, 4 * 24 * 1000 + 24 * 8 * 2 * (4 * 128 * 64 + 16)),
        ("9.0", 80, 2, 4 * 24 * 1000 + 24 * 8 * (4 * 128 * 128 + 16)),
        # In fp32 the row sums come from a product of the size of the output, larger than
        # 16 tiles of 64 by 64.
        ("8.0", 64, 4, max(4 * 24 * 1000 * 66, 4 * 24 * 1000 + 24 * 16 * (4 * 64 * 64 + 16))),
    ],
)
def test_efficient_backward_by_hand(card: str, head_dim: int, item: int, expected: int) -> None:
    query = heads_first(12, 1000, head_dim, item)
    assert workspace_bytes(EFFICIENT, [query] * 4, {"compute_capability": card}) == expected


def test_cudnn_backward_is_an_interval() -> None:
    query, key = heads_first(12, 1000, 64), heads_first(4, 1000, 64)
    op = "aten._scaled_dot_product_cudnn_attention_backward"
    least = 4 * 2 * 12 * 1000 * 65
    most = least + 2 * (4 * 2 * 12 * 1000 * 64)
    assert workspace_interval_bytes(op, [query, query, key, key]) == (least, most)
    assert workspace_interval_bytes(op, [query] * 4) == (least, least)
    assert "not fully known" in workspaces.doubt(op)
    assert workspaces.doubt(FLASH) == ""


def test_embedding_backward_by_hand() -> None:
    def scratch(tokens: int, vocab: int) -> int | None:
        gradient, ids = ((2, tokens // 2, 64), 2), ((2, tokens // 2), 8)
        op = "aten.embedding_dense_backward"
        return workspace_bytes(op, [gradient, ids], {"num_weights": vocab})

    assert scratch(3072, 50000) == 0
    # Three int64 a token, two and 64 fp32 a distinct token, one and 64 fp32 a tenth token.
    assert scratch(4000, 50000) == 24 * 4000 + 16 * 4000 + 4400 * (8 + 4 * 64)
    assert scratch(4000, 1000) == 24 * 4000 + 16 * 1000 + 1400 * (8 + 4 * 64)


def test_logsumexp_is_what_a_profiler_sees_and_the_closed_form_names() -> None:
    scores = torch.randn(30, 5000)
    hidden = workspace_bytes("aten::logsumexp", [((30, 5000), 4)])
    result = 30 * 4
    assert profiled_peak_bytes(lambda: torch.logsumexp(scores, -1)) == hidden + result
    assert INSIDE_LOGSUMEXP.name == HIDDEN_IN_KERNEL
    exponentials = INSIDE_LOGSUMEXP.value(item_bytes=4, tokens=30, vocab=5000)
    maxima = 30 * 4
    assert hidden == exponentials + maxima


def test_safe_softmax_and_multinomial_are_what_a_profiler_sees() -> None:
    scores = torch.rand(30, 5000)
    shapes = [((30, 5000), 4)]
    seen = profiled_peak_bytes(lambda: torch.ops.aten._safe_softmax(scores, -1))
    # Beside the result, and one number of four bytes.
    assert seen == workspace_bytes("aten._safe_softmax", shapes) + 30 * 5000 * 4 + 4
    drawn = profiled_peak_bytes(lambda: torch.multinomial(scores, 1))
    # Beside the result, and single numbers of the check that these are probabilities.
    assert drawn == pytest.approx(workspace_bytes("aten.multinomial", shapes) + 30 * 8, abs=64)


def test_unknown_is_none_and_missing_is_refused() -> None:
    assert workspace_bytes("aten.add.Tensor", [((3,), 4)]) is None
    assert workspace_bytes("aten.topk.default", [((3, 9), 4)]) is None
    assert "not fully known" in workspaces.doubt("aten.topk.default")
    assert workspace_bytes("aten.logsumexp", [((3, 9), 4)], {"torch_version": "1.13"}) is None
    assert workspace_bytes(FLASH, [((3, 9), 4)] * 4) is None
    with pytest.raises(ValueError, match="compute_capability: the scratch of aten._scaled"):
        workspace_bytes(EFFICIENT, [heads_first(12, 1000, 64)] * 4)


def test_every_row_names_an_operator_and_a_source() -> None:
    table = json.loads(workspaces.TABLE.read_text())["rows"]
    for row in table:
        namespace, name = row["op"].split(".")
        assert hasattr(getattr(torch.ops, namespace), name), row["op"]
        assert row["source"] and row["confidence"] and row["why"]
        first, last = row["torch"]
        assert workspaces._version(first) <= workspaces._version(last)
    assert workspaces.operators() == {row["op"] for row in table}
