"""The polynomials of a config's layers, in the settings that somebody asked for."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from planner.catalog.measured_setting import read_setting
from planner.dryrun.run import weights
from planner.dryrun.run.branches.routing import EVEN
from planner.dryrun.run.spot.fields import architecture_of, tables_of
from planner.dryrun.run.spot.kinds import KINDS, kinds_of, places_of, shorten, words_of
from planner.dryrun.run.spot.language import built, language_of, sentence_of, stated
from planner.dryrun.run.spot.lengths import span_of
from planner.dryrun.run.spot.polynomials import setting, setting_plan
from planner.dryrun.run.world import world
from planner.steps import anatomy, models


def measure(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What :mod:`planner.catalog.measured` reads of a model, as plain data.

    ``names`` are settings such as ``sdpa/padded/bf16``; one that transformers refuses stands in
    ``refused`` with its reason.

    Raises:
        ValueError: with the reason, for a config that no decoder of transformers is built from.
    """
    settings, notes = language_of(config)
    model = built(settings)
    layers = models.layers(model)
    kinds = kinds_of(layers, settings)
    if max(kinds) >= len(KINDS):
        raise ValueError(f"its layers are of more than {len(KINDS)} kinds")
    whole = weights.rows_of(model)
    listed = [row for row in whole if not anatomy.TOWER.search(row[0])]
    if len(listed) < len(whole):
        notes.append(
            f"{settings.model_type} holds towers that text does not go through; their weights come "
            "on top."
        )
    found: dict[str, Any] = {
        "layers": "".join(KINDS[kind] for kind in kinds),
        "words": words_of(layers, kinds, settings),
        "weights": listed,
        **weights.sentences_of(model),
        "tables": tables_of(model),
        "notes": notes,
        "architecture": architecture_of(model, settings, layers),
        "refused": {},
        "settings": {},
    }
    cut, all_of_them = places_of(kinds), places_of(kinds, len(kinds))
    for name in names:
        # A model that cannot be cut runs whole; one that makes tensors on the CPU and moves them
        # runs with all of them on the device.
        for places, here in ((cut, None), (all_of_them, None), (all_of_them, "meta")):
            try:
                with torch.device(here) if here else nullcontext():
                    measured, said = _setting(config, name, kinds, places)
                found["settings"] |= measured
                found["supposed"] += [each for each in said if each not in found["supposed"]]
                found["refused"].pop(name, None)
                break
            except MemoryError:
                raise
            except Exception as error:  # what a model's own code raises is about this setting
                found["refused"][name] = sentence_of(error)
            finally:
                gc.collect()
    return found


def _setting(
    config: Mapping[str, Any], name: str, kinds: list[int], places: list[int]
) -> tuple[dict[str, Any], list[str]]:
    """The polynomials of one setting, of a model cut to these layers, and what they suppose."""
    plan = setting_plan(name)
    with world(plan, autocast=read_setting(name).autocast) as (tracker, stage, _), tracker:
        settings = models.settings_of(config, stage.attention(plan.attention))

        def build() -> nn.Module:
            model = models.language_model(stage, settings, models.dtype_of(plan))
            shorten(model, places)
            return model.train()

        with _one_language(settings):
            span = span_of(build(), tracker, plan.batch_shape)
            found = setting(build, stage, tracker, name, [kinds[at] for at in places], span)
    return found, [note for note in tracker.log.notes if note == EVEN]


def _one_language(settings: Any) -> AbstractContextManager[Any]:
    """An adapter for a language takes the rows of that language: all, where there is no other."""
    from torch.fx.experimental import _config

    alone = len(stated(settings, "languages") or ()) == 1
    return patch.object(_config, "meta_nonzero_assume_all_nonzero", alone)
