"""A model a plan can name: its architecture, its counts, its licence, its sources.

Reads ``models.json`` once, on first use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.catalog.closest import unknown
from planner.catalog.families import read
from planner.catalog.families.multimodal import model_type_of
from planner.catalog.schema import ModelAlias, ModelFile, ModelRow, by_key, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A row of the catalog, or a config.json from outside."""

    id: str
    """The name that was asked for: a row's id or one of its aliases."""
    name: str
    model_type: str
    architecture: Architecture | None
    """None when no formula covers the model; ``unsupported_reason`` says why."""
    unsupported_reason: str
    config: Mapping[str, Any] = field(hash=False)
    sources: tuple[str, ...]
    params: int | None = None
    """Exact count, tied embeddings once; None for a config from outside."""
    params_active: int | None = None
    """Parameters that one token uses; differs from ``params`` for mixtures of experts."""
    licence: str = ""
    licence_source: str = ""
    confidence: str = ""
    note: str = ""
    date: str = ""
    """Day on which the row's figures were gathered; empty for a config from outside."""
    on_hub: bool = True
    """Whether weights are published under this id."""
    example_files: int = 0
    """How many example files of RL frameworks name it: how popular a list takes it to be."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What of a config from outside is not planned as it stands there, in sentences."""
    left_out: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Parts of it that are not planned at all, each with the way it would move the figures."""
    spot: str = ""
    """Key of a measurement on the spot, of a config that needs one; else empty."""
    alias_of: str = ""
    """Id of the row whose shapes this model shares; context length and RoPE may differ."""


COPIED = (
    *("id", "name", "params", "params_active", "licence", "licence_source"),
    *("sources", "confidence", "note", "date", "on_hub", "example_files"),
)
"""What a model takes from its row as it stands there."""


def supported(config: Mapping[str, Any]) -> tuple[Architecture | None, str]:
    """Architecture and the empty string, or None and why no formula covers the config."""
    family = read(config)
    if family is None:
        name = model_type_of(config)
        return (
            None,
            f"no derived activation sum for {name}, and the dry run's coefficients are those of "
            "the catalog's models; choose one of these",
        )
    reason = family.underived()
    return (None, reason) if reason else (family.architecture(), "")


def _model(row: ModelRow) -> Model:
    architecture, reason = supported(row.config)
    if architecture is None:
        architecture = measured.architecture_of(row.id, row.config)
        reason = "" if architecture else reason
    return Model(
        model_type=model_type_of(row.config),
        architecture=architecture,
        unsupported_reason=reason,
        config=MappingProxyType(row.config),
        **{name: getattr(row, name) for name in COPIED},
    )


def _alias(alias: ModelAlias, model: Model) -> Model:
    """The row's model under the name that was asked for."""
    config = {**model.config, **alias.config}
    architecture = supported(config)[0] if alias.config else model.architecture
    sources = (*model.sources, alias.source) if alias.source else model.sources
    return replace(
        model,
        id=alias.id,
        name=alias.id.split("/")[1],
        architecture=architecture,
        config=MappingProxyType(config),
        sources=sources,
        alias_of=model.id,
    )


@cache
def _rows() -> tuple[Mapping[str, Model], Mapping[str, Model]]:
    """Models by id, and by alias."""
    rows = read_rows("models.json", ModelFile).models
    by_id = {row.id: _model(row) for row in rows}
    aliases = [(alias.id, _alias(alias, by_id[row.id])) for row in rows for alias in row.aliases]
    by_key("models.json", ((id, None) for id in (*(row.id for row in rows), *dict(aliases))))
    return MappingProxyType(by_id), by_key("models.json", aliases)


def models() -> tuple[Model, ...]:
    """Every row of the catalog, those without an architecture included."""
    return tuple(_rows()[0].values())


def ids() -> tuple[str, ...]:
    """Every name that a plan's model may have: of rows, and of their aliases."""
    return (*_rows()[0], *_rows()[1])


def by_popularity() -> tuple[Model, ...]:
    """The same, those that most example files name first; equals by owner, smallest first."""
    owners: Counter[str] = Counter()
    for each in models():
        owners[_owner(each)] += each.example_files
    return tuple(
        sorted(
            models(),
            key=lambda each: (
                -each.example_files,
                -owners[_owner(each)],
                _owner(each).lower(),
                each.params or 0,
            ),
        )
    )


def _owner(model: Model) -> str:
    return model.id.partition("/")[0]


def model(id: str, *, field: str = "model") -> Model:
    """The model of this Hub id.

    Raises:
        ValueError: naming ``field`` and the closest ids when there is none.
    """
    by_id, aliases = _rows()
    found = by_id.get(id) or aliases.get(id)
    if found is None:
        raise ValueError(unknown(field, id, (*by_id, *aliases)))
    return found
