"""Models and accelerators, each figure with its source; configs from outside.

``models`` (or ``by_popularity``) and ``gpus`` list the catalog, ``model`` and ``gpu`` look one up
(a ``ValueError`` names the field and the closest matches), ``parse_config`` reads a config.json.
Imports no torch and no transformers.
"""

from planner.catalog.architecture import Architecture as Architecture
from planner.catalog.config_json import decode_config as decode_config
from planner.catalog.config_json import encode_config as encode_config
from planner.catalog.config_json import model_from_config as model_from_config
from planner.catalog.config_json import parse_config as parse_config
from planner.catalog.config_json import planned_config as planned_config
from planner.catalog.gpu_catalog import Gpu as Gpu
from planner.catalog.gpu_catalog import custom_gpu as custom_gpu
from planner.catalog.gpu_catalog import gpu as gpu
from planner.catalog.gpu_catalog import gpus as gpus
from planner.catalog.model_catalog import Model as Model
from planner.catalog.model_catalog import by_popularity as by_popularity
from planner.catalog.model_catalog import model as model
from planner.catalog.model_catalog import models as models
