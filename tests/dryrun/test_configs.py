"""What a dry run hands to transformers."""

from __future__ import annotations

import json

from planner import catalog
from planner.steps.models import settings_of


def test_the_catalogs_config_stays_as_it_is() -> None:
    """transformers 5.23 puts rope_theta into the rope_scaling that it is handed."""
    config = catalog.model("meta-llama/Llama-3.2-1B").config
    before = json.dumps(dict(config))
    assert settings_of(config, "eager").rope_parameters["rope_theta"] == config["rope_theta"]
    assert json.dumps(dict(config)) == before
