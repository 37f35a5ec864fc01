"""``python -m planner models``: the catalog's models."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from planner import catalog
from planner.catalog import Model
from planner.cli.answer import known, may_be_json, show, table

FIELDS = (
    *("id", "model_type", "params", "params_active", "licence", "unsupported_reason"),
    *("sources", "date"),
)


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    may_be_json(parser, "rows as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints every row; the reason stands beside those that cannot be estimated."""
    return show(arguments, catalog.models(), _json, _text)


def _text(models: Sequence[Model]) -> str:
    rows = [(m.id, known("{:,}".format, m.params), m.unsupported_reason) for m in models]
    return table(("model", "parameters", "unsupported"), rows, right=(1,))


def _json(models: Sequence[Model]) -> list[dict[str, object]]:
    """What is not known is None; so is an empty text."""
    return [{name: getattr(model, name) or None for name in FIELDS} for model in models]
