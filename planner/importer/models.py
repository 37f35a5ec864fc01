"""Which model of the catalog a path or a name in a script means."""

from __future__ import annotations

import re
from functools import cache

from planner.catalog.model_catalog import ids

LONGEST = 1000
"""Characters of a path that anybody writes."""
_CACHED = re.compile(r"(?:^|/)models--([\w.-]+?)--([\w.-]+)(?:/|$)")
"""A folder of Hugging Face's cache."""


@cache
def _known() -> dict[str, str | None]:
    """Ids by themselves and by their last part, in small letters; None where two have that."""
    found: dict[str, str | None] = {}
    for name in ids():
        found[name.lower()] = name
        short = name.rpartition("/")[2].lower()
        found[short] = None if short in found else name
    return found


def catalog_id(text: str) -> str | None:
    """The Hub id that a name, a local folder or a folder of Hugging Face's cache is called after.

    None where no model of the catalog is, or more than one.
    """
    path = text[:LONGEST].rstrip("/").lower()
    if cached := _CACHED.search(path):
        path = f"{cached[1]}/{cached[2]}"
    parts = path.split("/")
    return _known().get("/".join(parts[-2:])) or _known().get(parts[-1])
