"""How fields written under an older link version become today's.

A link and a released preset say which version wrote them and mean the same for ever.
So whoever adds, renames or splits a field of :class:`planner.plan.Plan` raises
:data:`VERSION` by one and appends a function that gives old fields the value that keeps
their old meaning. Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Fields = dict[str, Any]
Migration = Callable[[Fields], Fields]

FIRST_VERSION = 1
"""The version of links that were ever released first; a link that names none means this."""

GRPO_UNTIL_2 = ("rloo", "reinforce++", "reinforce-plus-plus")
"""Methods that were planned as GRPO before they had a step of their own.

Written out, since what an old link means must not change with the methods of a later release.
"""


VARIATIONS_UNTIL_8 = ("dapo", "gspo", "dr-grpo")
"""Variations that were planned as GRPO, with its KL term, before a plan said which was meant."""
ZERO_UNTIL_8 = ("zero1", "zero2", "zero3")
"""Ways to shard that moved nothing with ``reduce_dtype``."""


def _as_grpo(names: tuple[str, ...]) -> Migration:
    """Such a version knew these as other names of GRPO."""
    return lambda fields: (
        {**fields, "method": "grpo"}
        if str(fields.get("method")).strip().lower() in names
        else fields
    )


def _until_8(fields: Fields) -> Fields:
    """ZeRO reduced in the dtype that it computes in, whatever a complete link had for it."""
    kept = _as_grpo(VARIATIONS_UNTIL_8)(fields)
    if kept.get("sharding") in ZERO_UNTIL_8 and "reduce_dtype" in kept and "dtype" in kept:
        kept = {**kept, "reduce_dtype": kept["dtype"]}
    return kept


def _unchanged(fields: Fields) -> Fields:
    """What such a version did not know it planned as the defaults of today have it."""
    return fields


MIGRATIONS: tuple[Migration, ...] = (
    _as_grpo(GRPO_UNTIL_2),
    # 2 knew neither dropout of adapters nor GRADE's autocast: both were off.
    _unchanged,
    # 3 knew nothing of autocast, other dtypes of frozen weights, chunks of the head, or when
    # the optimizer steps.
    _unchanged,
    # 4 knew neither an engine beside the trainer nor rewards that take time.
    _unchanged,
    # 5's runs were their steps alone, and its engines had the trainer's weights.
    _unchanged,
    # 6's engines scheduled beside the card, with experts in slices; no disk was known.
    _unchanged,
    # 7's prompts were all planned at their cap.
    _unchanged,
    _until_8,
)
"""Migration ``i`` turns fields of version ``FIRST_VERSION + i`` into the next version's."""

VERSION = FIRST_VERSION + len(MIGRATIONS)
"""The version that links are written in now."""

ADDED: Mapping[str, int] = {
    "reinforce_baseline": 2,
    "lora_dropout": 3,
    "grade_autocast": 3,
    "autocast": 4,
    "base_dtype": 4,
    "chunk_compile": 4,
    "chunk_tokens": 4,
    "optimizer_step": 4,
    "temperature": 4,
    "resampling_factor": 5,
    "reward_concurrency": 5,
    "reward_seconds": 5,
    "rollout_overlap": 5,
    "eval_steps": 6,
    "rollout_quantization": 6,
    "save_steps": 6,
    "validation_responses": 6,
    "async_scheduling": 7,
    "disk_bytes_per_second": 7,
    "rollout_expert_parallel": 7,
    "sync_bucket_bytes": 7,
    "mean_prompt_tokens": 8,
    "variation": 9,
}
"""Fields that came later, each with its first version: an older link did not leave them out."""


def migrate(
    fields: Mapping[str, Any], version: int, migrations: tuple[Migration, ...] = MIGRATIONS
) -> Fields:
    """The fields as today's version has them.

    Raises:
        ValueError: the version is not one this release can read; the message says which.
    """
    newest = FIRST_VERSION + len(migrations)
    if version > newest:
        raise ValueError(
            f"This link is version {version}, and this Headroom reads up to version {newest}."
        )
    if version < FIRST_VERSION:
        raise ValueError(f"There never was a link of version {version}.")
    migrated = dict(fields)
    for migration in migrations[version - FIRST_VERSION :]:
        migrated = migration(migrated)
    return migrated
