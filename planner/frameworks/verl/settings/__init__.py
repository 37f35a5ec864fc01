"""verl 0.9.1's settings: one table, which export and import read and nothing else.

Rows stand in the order in which an export writes them; those that it never writes come last.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from planner.frameworks.verl.settings.algorithm import ESTIMATOR, KL_CONTROL, VARIATION
from planner.frameworks.verl.settings.batches import COMPARED, FOLLOWING, LENGTHS, TRAINED
from planner.frameworks.verl.settings.critic import CRITIC_FOLLOWING, CRITIC_ROWS
from planner.frameworks.verl.settings.model import KERNEL, POLICY
from planner.frameworks.verl.settings.rollout import APART, ENGINE, POOL
from planner.frameworks.verl.settings.rows import Added
from planner.frameworks.verl.settings.run import RUN, SOURCES
from planner.importer.reading import pattern
from planner.values.setting import Setting
from planner.values.setting_files import names, without_field

HERE = Path(__file__).parent
SETTINGS: tuple[Setting, ...] = (
    *ESTIMATOR,
    *LENGTHS,
    *POLICY,
    *TRAINED,
    *COMPARED,
    *VARIATION,
    *ENGINE,
    *KL_CONTROL,
    *KERNEL,
    *CRITIC_ROWS,
    *POOL,
    *APART,
    *RUN,
    *FOLLOWING,
    *CRITIC_FOLLOWING,
    *SOURCES,
    *without_field(HERE / "beyond" / "code.jsonl", kind=Added),
    *without_field(HERE / "beyond" / "yaml.jsonl"),
)


def known(name: str) -> bool:
    """Whether the table or the list has a setting."""
    return name in _names() or bool(_nothing().fullmatch(name))


@cache
def _names() -> frozenset[str]:
    return frozenset(row.name for row in SETTINGS)


@cache
def _nothing() -> re.Pattern[str]:
    return pattern(no_effect())


@cache
def no_effect() -> tuple[str, ...]:
    """Names that move neither memory nor seconds, with ``*`` for any characters."""
    return names(HERE / "no_effect.txt")
