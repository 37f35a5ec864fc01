"""Preflight: the card that is here beside the plan's, before anything is loaded."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

GIB = 2**30


def check_card(plan: Mapping[str, Any], device: torch.device, anyway: bool) -> None:
    """Print what was planned and what is here; stop where the prediction does not fit."""
    print(
        f"Planned: {plan['card']}, {plan['budget_bytes'] / GIB:.1f} GiB; predicted peak "
        f"{plan['predicted_device_bytes'] / GIB:.1f} GiB in phase {plan['predicted_phase']}."
    )
    if device.type != "cuda":
        print(f"Here: {device.type}. The prediction is for a GPU, so nothing is compared.")
        return
    here = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    print(f"Here: {here.name}, {total / GIB:.1f} GiB, of which {free / GIB:.1f} GiB are free.")
    fix = "Free the card, change the plan, or pass --anyway."
    check_room("The plan", plan["predicted_reserved_bytes"], device, anyway, fix)


def check_room(what: str, needed: int, device: torch.device, anyway: bool, fix: str) -> None:
    """Stop where less of a card is free than is needed, unless one goes on anyway."""
    if device.type != "cuda":
        return
    # Asking makes this process's CUDA context, so what is free is all the allocator's.
    free, _ = torch.cuda.mem_get_info(device)
    if free >= needed:
        return
    short = (
        f"{what} needs {needed / GIB:.1f} GiB beside the CUDA context; "
        f"{(needed - free) / GIB:.1f} GiB are missing. Nothing was loaded."
    )
    if not anyway:
        sys.exit(f"{short} {fix}")
    print(short, "Going on, as --anyway asks.")


def peak_sentence(plan: Mapping[str, Any], device: torch.device) -> str:
    """What the allocator reserved at most, beside the prediction; empty without a GPU."""
    if device.type != "cuda":
        return ""
    reserved, needed = torch.cuda.max_memory_reserved(device), plan["predicted_reserved_bytes"]
    return (
        f", reserved at most {reserved / GIB:.2f} GiB (predicted {needed / GIB:.2f}, "
        f"{needed / reserved - 1:+.1%})"
    )
