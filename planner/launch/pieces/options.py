"""Options that every program has."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch


def parser_of(plan: Mapping[str, Any], doc: str) -> argparse.ArgumentParser:
    """Data, places, and what the plan has no field for; ``doc`` is the program's docstring."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--data", required=True, metavar="FILE", help="a JSONL file")
    parser.add_argument("--output", default="output", metavar="DIR", help="where the result goes")
    parser.add_argument("--model", default=plan["model"], help="a Hub id or a local folder")
    parser.add_argument("--revision", default=None, help="a commit, branch or tag of the model")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, … or cpu")
    parser.add_argument("--steps", type=int, default=plan["steps"])
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--anyway", action="store_true", help="go on where the card is too small")
    parser.add_argument(
        "--dry", action="store_true", help="check card and data, print the options, load no model"
    )
    return parser


def chosen_device(name: str) -> torch.device:
    """The device of that name; stops with a sentence where there is none."""
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("device: there is no CUDA device here; pass --device cpu to run anyway.")
    return device
