"""How fields written under an older link version become today's.

A link and a released preset say which version wrote them and mean the same for ever.
So a field that is added says in its row since which version there is one, and where old
fields would mean something else a function gives them the value that keeps their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.plan.plan import ROWS

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


MIGRATIONS: Mapping[int, Migration] = {1: _as_grpo(GRPO_UNTIL_2), 8: _until_8}
"""By the version that each makes the next one's of; where none is, fields mean the same in both.

What a version did not know yet it planned as the defaults of today have it.
"""

VERSION = max(1 + max(MIGRATIONS), *(row.since for row in ROWS.values()))
"""The version that links are written in now."""


def migrate(
    fields: Mapping[str, Any],
    version: int,
    migrations: Mapping[int, Migration] = MIGRATIONS,
    newest: int = VERSION,
) -> Fields:
    """The fields as today's version has them.

    Raises:
        ValueError: the version is not one this release can read; the message says which.
    """
    if version > newest:
        raise ValueError(
            f"This link is version {version}, and this Headroom reads up to version {newest}."
        )
    if version < FIRST_VERSION:
        raise ValueError(f"There never was a link of version {version}.")
    migrated = dict(fields)
    for each in range(version, newest):
        if each in migrations:
            migrated = migrations[each](migrated)
    return migrated
