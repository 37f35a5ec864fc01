"""What every program does before it loads a model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch

from planner.launch.pieces.policy import tokenizer_of
from planner.launch.pieces.preflight import check_card
from planner.launch.pieces.ranks import joined


def begun(plan: Mapping[str, Any], given: argparse.Namespace) -> tuple[torch.device, Any]:
    """This process's device, once its card has been checked; and the tokenizer."""
    device = joined(plan, given.device)
    check_card(plan, device, given.anyway)
    return device, tokenizer_of(given.model, given.revision)
