"""What a dry run hands to transformers."""

from __future__ import annotations

import json

import pytest

from planner import catalog
from planner.steps.models import settings_of


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.2-1B", "google/gemma-3-1b-it"])
def test_the_catalogs_config_stays_as_it_is(model: str) -> None:
    """transformers 5.23 puts rope_theta into the rope_scaling that it is handed."""
    config = catalog.model(model).config
    before = json.dumps(dict(config))
    assert settings_of(config, "eager").model_type == config["model_type"]
    assert json.dumps(dict(config)) == before
