"""What verl's YAML takes from elsewhere in itself: ``${a.b}``, ``${oc.select:a.b,default}``.

Nothing but settings is looked up: no environment, no file, no other resolver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

DEEPEST = 8
"""Settings that take their value from one another in a row; the YAML has three."""
_TEXT = re.compile(r"\$\{(?:oc\.select:)?(\.?[\w.]+)(?:,\s*([^${}]*))?\}")


class Unresolved(ValueError):
    """A value stands for something that is no setting here."""


def resolved(name: str, values: Mapping[str, Any], depth: int = DEEPEST) -> Any:
    """A setting's value, with what it takes from others.

    Args:
        name: The setting; a dot before another's name there means beside this one.
        values: All settings, unresolved, by name.
        depth: How many may follow each other.

    Raises:
        Unresolved: it takes something that is no setting, or too many follow each other.
    """
    value = values[name]
    if not isinstance(value, str) or "${" not in value:
        return value
    if depth == 0:
        raise Unresolved(f"{name} follows too many settings in a row.")

    def looked_up(found: re.Match[str]) -> Any:
        other, default = found.groups()
        other = f"{name.rpartition('.')[0]}{other}" if other.startswith(".") else other
        if other in values:
            return resolved(other, values, depth - 1)
        if default is None:
            raise Unresolved(f"{found.group()} is no setting here.")
        return yaml.safe_load(default)

    if alone := _TEXT.fullmatch(value):
        return looked_up(alone)
    filled = _TEXT.sub(lambda found: str(looked_up(found)), value)
    if "${" in filled:
        raise Unresolved(f"{value[:80]!r} stands for what no setting says.")
    return filled
