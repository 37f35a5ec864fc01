"""A dry run as one JSON-ready answer: a footprint, and what only a dry run knows. No torch."""

from __future__ import annotations

from typing import Any

from planner.answer import to_json
from planner.dryrun.ask.answer import DryRun


def dry_run_to_json(found: DryRun) -> dict[str, Any]:
    """The footprint as every rung of evidence writes it, with ``dry_run`` beside it."""
    return {
        **to_json(found.footprint),
        "dry_run": {
            "ran": found.standing.ran,
            "comparisons": [
                {
                    "phase": one.phase,
                    "closed_form_bytes": one.closed_bytes,
                    "dry_run_bytes": one.dry_bytes,
                    "difference": one.difference,
                    "error": one.error or None,
                }
                for one in found.comparisons
            ],
            "phases": list(found.phases),
            "timeline": list(found.timeline),
            "alloc_retries": found.alloc_retries,
            "out_of_memory": found.out_of_memory,
            "notes": list(found.notes),
            "versions": dict(found.versions),
            "seconds": found.seconds,
        },
    }
