"""What a config.json says that its plan leaves out: remembered in links, told in warnings.

A link carries the fields that are planned and, under ``seen``, these few facts; both may come
from a stranger, so only names go further.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.catalog.families.multimodal import MODEL_TYPE, TEXT_PARTS, model_type_of, part_of
from planner.catalog.model_catalog import models

CLASS = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)


def seen_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to tell of a config, or of one that a link carries.

    Raises:
        ValueError: for class names that are none.
    """
    before = config.get("seen")
    if before is None:
        found = {
            "part_of": model_type_of(config) if part_of(config) else None,
            "auto_map": bool(config.get("auto_map")),
            "architectures": config.get("architectures") or [],
        }
    elif isinstance(before, Mapping):
        found = {key: before.get(key) for key in ("part_of", "auto_map", "architectures")}
    else:
        raise ValueError("config: seen is not what a link carries; paste the file again.")
    names = found["architectures"] or []
    if not isinstance(names, list) or len(names) > 8 or not all(map(_is_class, names)):
        raise ValueError("config: architectures is no list of class names.")
    kept: dict[str, Any] = {}
    whole = found["part_of"]
    if isinstance(whole, str) and MODEL_TYPE.fullmatch(whole):
        kept["part_of"] = whole
    if found["auto_map"]:
        kept["auto_map"] = True
    strange = [name for name in names if name not in _classes(config, kept)]
    if strange:
        kept["architectures"] = strange
    return kept


def left_out(seen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a config has and no plan counts, each with the way it would move the figures."""
    if "part_of" in seen:
        yield (
            f"all of {seen['part_of']} but its language model",
            "weights, activations and time of its vision part would come on top",
        )


def sentences(seen: Mapping[str, Any], model_type: str) -> Iterator[str]:
    """Each fact as a warning."""
    if "auto_map" in seen:
        yield (
            "config: auto_map names code of the model's own repository, which is never run; "
            f"{model_type} is planned as transformers has it."
        )
    if "architectures" in seen:
        known = " or ".join(_of_type(model_type)) or "a causal language model"
        yield (
            f"config: architectures names {', '.join(seen['architectures'])}; "
            f"planned is {known} of transformers."
        )


def _is_class(name: Any) -> bool:
    return isinstance(name, str) and CLASS.fullmatch(name) is not None


def _classes(config: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Classes of transformers that train what is planned."""
    outer = model_type_of(config)
    if "part_of" in kept:  # told already
        return [*_of_type(part_of(config) or outer), *_conditional(outer)]
    return _of_type(outer)


def _of_type(model_type: str) -> list[str]:
    rows = (row for row in models() if row.model_type == model_type)
    return sorted({name for row in rows for name in row.config.get("architectures", ())})


def _conditional(outer: str) -> list[str]:
    """The multimodal class: ``gemma3`` to ``Gemma3ForConditionalGeneration``."""
    prefixes = {name.partition("For")[0] for name in _of_type(TEXT_PARTS.get(outer, outer))}
    return [f"{prefix}ForConditionalGeneration" for prefix in prefixes]
