"""What a framework's own parser makes of a command, to hold against what was read of it.

Only names and values are compared: of the shell's words in between ``tests/shells.py`` asks bash.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from planner.importer.imported import Imported

MODELS = ("model_name_or_path", "model.path", "model_path")
"""Whose values are read as names of the catalog."""


def misread(found: Imported) -> tuple[int, list[str]]:
    """How many understood settings could be held against it, and which have another value."""
    theirs = PARSERS[found.framework](found) if found.framework in PARSERS else {}
    checked, wrong = 0, []
    for one in found.reading.understood:
        if one.name not in theirs or one.name.endswith(MODELS) or isinstance(one.value, dict):
            continue
        checked += 1
        if theirs[one.name] != one.value and str(theirs[one.name]) != str(one.value):
            wrong.append(f"{one.name}: {one.value!r}, not {theirs[one.name]!r}")
    return checked, wrong


def _verl(found: Imported) -> Mapping[str, Any]:
    """Of hydra and OmegaConf over the installed wheel's configuration, where that is all."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from planner.frameworks.verl.importer import CONFIGS
    from planner.frameworks.verl.settings.hydra_words import parsed

    launch = found.launch
    if launch is None or not launch.arguments:
        return {}
    words = parsed(launch.arguments)
    name = str(words.config.value) if words.config else "ppo_trainer"
    if name not in CONFIGS or "one_step" in name:
        return {}
    given = [one.text for one in launch.arguments if one.known and "=" in one.text]
    # An option is no override; a name of an older version is added, as hydra is told by ``++``.
    wanted = [f"++{text.lstrip('+')}" for text in given if text[0] not in "-~"]
    names = {text.lstrip("+").partition("=")[0] for text in given}
    folder = Path(_package("verl")) / "trainer" / "config"
    try:
        with initialize_config_dir(str(folder), version_base=None):
            config = compose("ppo_trainer", overrides=wanted)
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    except (HydraException, OmegaConfBaseException):
        return {}
    return {name: value for name, value in _flat(values, "") if name in names}


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _flat(inside, f"{name}.{key}" if name else str(key))


def _trl(found: Imported) -> Mapping[str, Any]:
    """Of argparse as transformers builds it from TRL's dataclasses."""
    trl: Any = import_module("trl")
    parser_of: Any = import_module("transformers").HfArgumentParser

    from planner.frameworks.trl.importer import classes

    launch = found.launch
    method = found.reading.plan.get("method")
    config = next((name for name, known in classes().items() if known == method), "")
    if launch is None or not config or not hasattr(trl, config):
        return {}
    kinds = (trl.ScriptArguments, getattr(trl, config), trl.ModelConfig)
    parser = parser_of(kinds, exit_on_error=False)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            values, _ = parser.parse_known_args([one.text for one in launch.arguments])
    except (argparse.ArgumentError, SystemExit, ValueError):
        return {}
    flags = {word.text.lstrip("-").partition("=")[0] for word in launch.arguments}
    return {name: value for name, value in vars(values).items() if name in flags}


@cache
def _package(name: str) -> str:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(name)
    return found.submodule_search_locations[0]


PARSERS = {"verl": _verl, "trl": _trl}
