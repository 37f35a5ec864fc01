"""Kernels behind a cause of time, in words: what was asked for, what was measured, what is left.

Imports no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.catalog.gpu_catalog import gpu
from planner.kernels.explanation import Explanation, Measured
from planner.timing.opened import Kernel, Opened
from planner.units import read_count, read_seconds
from planner.wording.display import percent

KINDS = {
    "products": "GEMM",
    "prefill": "prefill attention",
    "decode": "decode attention",
    "experts": "experts",
}
STRETCHED = {
    "products": "the second matrix's width",
    "prefill": "sequences × heads",
    "decode": "sequences × key heads",
    "experts": "the experts' width",
}
"""The size at which another card's table is asked, by bandwidths."""
ENOUGH, FEWEST, MOST = 0.9, 3, 10
"""What a list of kernels is to hold of them all, and how many at least and at most."""
SEEN = 5e-4
"""By how much a factor differs from 1 where three digits show it."""


def shape(kind: str, sizes: Mapping[str, Any]) -> str:
    """One kernel's sizes, as it was asked for."""
    if kind == "products":
        rows, inner, outer = (_count(sizes[name]) for name in ("rows", "inner", "outer"))
        return f"{rows} × {inner} by {inner} × {outer}, {sizes['dtype']}"
    if kind == "experts":
        return f"{_experts(sizes)}, {sizes['dtype']}"
    heads = f"{_count(sizes['heads'])} heads of {sizes['head_dim']}"
    keys = f"{_count(sizes['kv_heads'])} of keys"
    window = f", window {_count(sizes['window'])}" if sizes.get("window") else ""
    sequences = _count(sizes["sequences"])
    if kind == "prefill":
        return f"{sequences} × {_count(sizes['tokens'])} tokens, {heads}, {keys}{window}"
    cache = ", cache in 8 bits" if sizes["kv_value_bytes"] < 2 else ""
    behind = _count(sizes["context_tokens"])
    return f"{sequences} sequences behind {behind} tokens, {heads}, {keys}{cache}{window}"


def measured_shape(kind: str, row: Measured) -> str:
    """The sizes of a measured row."""
    sizes = row.sizes
    if kind == "products":
        rows, inner, outer = (_count(sizes[name]) for name in ("rows", "inner", "outer"))
        return f"{rows} × {inner} by {inner} × {outer}"
    if kind == "experts":
        return _experts(sizes)
    lanes, group = _count(sizes["lanes"]), _count(sizes["group"])
    lane = "heads" if kind == "prefill" else "key heads"
    window = f", window {_count(sizes['window'])}" if "window" in sizes else ""
    return (
        f"{_count(sizes['length'])} tokens, {lanes} sequences × {lane} of {sizes['head_dim']}, "
        f"{group} heads a key head{window}"
    )


def _experts(sizes: Mapping[str, Any]) -> str:
    spread = sizes.get("spread", 1)
    over = f", spread over {read_count(spread, 'GPU')}" if spread > 1 else ""
    return (
        f"{_count(sizes['tokens'])} tokens, {sizes['experts_per_token']} of {sizes['experts']} "
        f"experts of {_count(sizes['hidden'])} × {_count(sizes['expert_intermediate'])}{over}"
    )


def _count(size: float) -> str:
    """A size, which may be a mean: three digits where it is small."""
    return f"{size:,.0f}" if size >= 100 or float(size).is_integer() else f"{size:.3g}"


def shown(found: Opened) -> tuple[Kernel, ...]:
    """The kernels that carry most of the time."""
    kept: list[Kernel] = []
    left = (1 - ENOUGH) * found.kernel_seconds
    rest = found.kernel_seconds
    for one in found.kernels[:MOST]:
        if rest <= left and len(kept) >= FEWEST:
            break
        kept.append(one)
        rest -= one.seconds
    return tuple(kept)


def runs(count: float) -> str:
    """How often a kernel runs."""
    return f"{count:,.0f}" if count >= 10 else f"{count:.3g}"


def how_much(found: Opened) -> str:
    """What of a cause its listed kernels are, and what the rest of it is."""
    listed, many = shown(found), len(found.kernels)
    if len(listed) == many and not found.beside:
        return "All of it."
    added = sum(one.seconds for one in found.beside if one.seconds > 0)
    whole = found.kernel_seconds + added
    share = percent(sum(one.seconds for one in listed) / whole)
    which = "These kernels" if len(listed) == many else f"These {len(listed)} of {many} kernels"
    parts = [f"{which} are {share} of {read_seconds(whole)}"]
    for one in found.beside:
        parts.append(f"{one.name}{',' * (one.seconds < 0)} {read_seconds(abs(one.seconds))}")
    return f"{'; '.join(parts)}."


def rests_on(kind: str, found: Explanation) -> str:
    """Whose table answered, how it was asked, and under which versions."""
    tables = found.tables
    if found.benchmark:
        return f"by this GPU's own benchmark ({found.benchmark})"
    if tables.own:
        return f"measured on this GPU with {tables.version}"
    stretched = f"at {found.stretch:.3g} times {STRETCHED[kind]}, the ratio of the bandwidths"
    gain = ""
    if found.gain != 1:
        gain = f"; this GPU's peak counts {found.gain:.3g} times, by what its GEMMs reach of it"
    lender = gpu(tables.card).name
    return f"borrowed from {lender} ({tables.version}), looked up {stretched}{gain}"


def factors(one: Kernel) -> str:
    """What a kernel's seconds are multiplied by beside its runs; empty for nothing."""
    found = one.asked.factors.items()
    return ", ".join(f"{name} × {by:.3g}" for name, by in found if abs(by - 1) >= SEEN)
