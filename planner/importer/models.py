"""The model of a run: the catalog's, by a path or a name in a script; or a config.json beside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from planner import catalog
from planner.catalog.model_catalog import ids
from planner.importer.given import Given, Open

LONGEST = 1000
"""Characters of a path that anybody writes."""
LARGEST_CONFIG = 200_000
"""Characters of a config.json in which its model's type is looked for."""
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


def cataloged(given: Given) -> Given:
    """A setting that names a model, by its name in the catalog; one that is not there is asked.

    What the name rests on is listed where the text has a value for it.
    """
    found = catalog_id(str(given.value))
    if found is None:
        return replace(given, opens=(*given.opens, Open(str(given.value), place=given.place)))
    return replace(given, value=found, opens=tuple(o for o in given.opens if o.default is not None))


def config_among(texts: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """A model's config.json among a run's texts, as the plan's field that holds it; else nothing.

    One that cannot be planned is noted in a sentence, and one beside another is.
    """
    found: dict[str, str] = {}
    for name, text in texts.items():
        if name.endswith(".json") and '"model_type"' in text[:LARGEST_CONFIG]:
            if found:
                notes.append(f"{name} is the config of another model: the first one is planned.")
                break
            try:
                found = {"config": catalog.planned_config(catalog.parse_config(text))}
            except ValueError as error:
                notes.append(f"{name}: {str(error).removeprefix('config: ')}")
    return found
