"""What a run will take, from the core's formulas and what its calibration found. No torch."""

from __future__ import annotations

import json
from pathlib import Path

from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.setup import SETUP, Setup
from planner.sampling.estimate import SamplingEstimate, estimate
from planner.sampling.measured import Measured

RATES = "rates.json"


def predicted(folder: Path) -> SamplingEstimate | None:
    """The estimate of a run, as far as its folder tells; None before it is prepared."""
    try:
        request = SamplingRequest.model_validate_json((folder / "request.json").read_bytes())
        setup = Setup.model_validate_json((folder / SETUP).read_bytes())
    except (OSError, ValueError):
        return None
    try:
        rates = json.loads((folder / RATES).read_text("utf-8"))
    except (OSError, ValueError):
        rates = {}
    return estimate(request.planned(setup.prompts, setup.width, setup.cores), Measured(**rates))
