"""A dry run's answer with round figures, as a worker would write it. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.plan import Plan
from planner.units import GIB

SFT = {"v": "1", "model": "Qwen/Qwen2.5-0.5B", "method": "sft", "framework": "plain", "gpus": "1"}
"""The query of a plan whose training step has the phases below."""


def alive(count: int, gib: float, category: str, module: str, op: str) -> dict[str, Any]:
    return {
        "count": count,
        "bytes": int(gib * GIB),
        "shape": [4, 1024],
        "dtype": "float32",
        "role": "policy",
        "category": category,
        "module": module,
        "op": op,
    }


def phase(name: str, shares: Mapping[str, float], **changes: Any) -> dict[str, Any]:
    """A phase whose live bytes are the shares; the allocator keeps a quarter on top."""
    live = int(sum(shares.values()) * GIB)
    return {
        "phase": name,
        "scratch_bytes": 0,
        "scratch_op": "",
        "host_bytes": 0,
        "op": "mm",
        "module": "layers.0.mlp",
        "shares": [
            {"role": "policy", "category": category, "bytes": int(gib * GIB)}
            for category, gib in shares.items()
        ],
        "alive": [
            alive(1, gib, category, f"of {name}", "mm")
            for category, gib in sorted(shares.items(), key=lambda pair: -pair[1])
        ],
        "live_bytes": live,
        "requested_bytes": live,
        "allocated_bytes": live,
        "reserved_bytes": live * 5 // 4,
        "inherited_bytes": 0,
        **changes,
    }


def point(event: int, name: str, op: str = "aten::mm", **shares: float) -> dict[str, Any]:
    return {
        "event": event,
        "phase": name,
        "op": op,
        "module": "layers.0.mlp",
        "by_category": {category: int(gib * GIB) for category, gib in shares.items()},
    }


def found(**changes: Any) -> dict[str, Any]:
    """2 GiB of weights; 6 more in the forward, 8 in the backward, 4 in the optimizer's step."""
    return {
        "phases": [
            phase("policy forward", {"parameters": 2, "activations": 6}),
            phase("policy backward", {"parameters": 2, "activations": 6, "gradients": 2}),
            phase("optimizer step", {"parameters": 2, "gradients": 2, "optimizer": 2}),
        ],
        "timeline": [
            point(100, "policy forward", parameters=2, activations=6),
            point(110, "policy backward", parameters=2, activations=6, gradients=2),
            point(115, ""),
            point(120, "optimizer step", "", parameters=2, gradients=2, optimizer=2),
        ],
        "notes": ["Layers ran eagerly; compiled layers keep less."],
        "versions": {"torch": "2.13.0", "transformers": "5.23.0", "peft": "0.21.2"},
        "seconds": 1.5,
        **changes,
    }


def plan(**changes: Any) -> Plan:
    """The plan of :data:`SFT`."""
    return Plan(
        **{
            "model": "Qwen/Qwen2.5-0.5B",
            "method": "sft",
            "framework": "plain",
            "gpus": 1,
            **changes,
        }
    )
