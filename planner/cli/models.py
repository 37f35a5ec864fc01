"""``python -m planner models``: the catalog's models."""

from __future__ import annotations

import argparse
import json

from planner import catalog
from planner.cli.table import table


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("models", help="models that a plan can name")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints every row; the reason stands beside those that cannot be estimated."""
    models = catalog.models()
    if arguments.json:
        rows = [
            {
                "id": model.id,
                "model_type": model.model_type,
                "params": model.params,
                "params_active": model.params_active,
                "licence": model.licence,
                "unsupported_reason": model.unsupported_reason or None,
                "sources": list(model.sources),
                "date": model.date,
            }
            for model in models
        ]
        print(json.dumps(rows, indent=2))
        return 0
    cells = [
        (
            model.id,
            "?" if model.params is None else f"{model.params:,}",
            model.unsupported_reason,
        )
        for model in models
    ]
    print(table(("model", "parameters", "unsupported"), cells, right=(1,)))
    return 0
