"""Models and accelerators, each figure with its source; configs from outside.

``models`` (or ``by_popularity``) and ``gpus`` list the catalog, ``model`` and ``gpu`` look one up
(a ``ValueError`` names the field and the closest matches), ``parse_config`` reads a config.json.
Imports no torch and no transformers.
"""

from planner.catalog.architecture import Architecture
from planner.catalog.config_json import (
    decode_config,
    encode_config,
    model_from_config,
    parse_config,
)
from planner.catalog.gpu_catalog import Gpu, custom_gpu, gpu, gpus
from planner.catalog.model_catalog import Model, by_popularity, model, models

__all__ = [
    "Architecture",
    "Gpu",
    "Model",
    "by_popularity",
    "custom_gpu",
    "decode_config",
    "encode_config",
    "gpu",
    "gpus",
    "model",
    "model_from_config",
    "models",
    "parse_config",
]
