"""A model from outside: a pasted or uploaded config.json, and its short form for links."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from planner.catalog import measured, spot
from planner.catalog.families import read
from planner.catalog.families.multimodal import model_type_of, text_config
from planner.catalog.model_catalog import Model, supported
from planner.catalog.safe_json import MAX_BYTES, read_object
from planner.catalog.seen import left_out, seen_in, sentences
from planner.catalog.twins import twin, twin_config

MAX_ENCODED = 8192
"""Characters of a config in a link; a plan's ``config`` field has the same limit."""
URL_SAFE = re.compile(r"[A-Za-z0-9_\-]+={0,2}")


def parse_config(source: str | bytes | Mapping[str, Any]) -> Model:
    """The model that a config.json describes, as text or parsed already.

    What Python writes as a dictionary has keys that are no text (``id2label``'s numbers): it is
    read as the file that it would be.

    Raises:
        ValueError: one sentence that names the bad field (``config: hidden_size is …``).
    """
    if isinstance(source, Mapping):
        try:
            source = json.dumps(dict(source))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"config: what is given cannot be written as JSON: {error}.") from None
    return model_from_config(read_object(source, infinity=True))


def model_from_config(config: Mapping[str, Any]) -> Model:
    """The same for a config that is parsed already, such as :func:`decode_config`'s."""
    seen = seen_in(config)
    text = text_config(config)
    name = model_type_of(text)
    key = ""
    architecture, reason = supported(text)
    canonical = dict(text)
    if read(text) is not None:
        canonical = _canonical(config)
    else:
        row, reason = twin(text)
        if row is not None:
            canonical = _canonical(config)
            architecture = measured.architecture_of(row.id, canonical)
        else:
            canonical = _canonical(config)
            key = spot.key_of(canonical)
            architecture, reason = measured.spot_architecture(key, name, canonical)
            if reason and seen.get("auto_map"):
                reason += "; code of its own (auto_map) is never run"
    digest = hashlib.sha256(_compact(canonical)).hexdigest()[:12]
    return Model(
        id=f"config-{digest}",
        name=f"{name} from a config.json",
        model_type=name,
        architecture=architecture,
        unsupported_reason=reason,
        config=MappingProxyType(canonical),
        sources=("config.json given by the user",),
        spot=key,
        on_hub=False,
        left_out=tuple(left_out(seen)),
        warnings=(*sentences(seen, name), *measured.notes(key)),
    )


def encode_config(config: Mapping[str, Any]) -> str:
    """A config as a link carries it: the schema's fields, compact JSON, zlib, base64.

    Every field of the schema is written out, so that a link keeps its meaning when a
    default changes.

    Raises:
        ValueError: for a config that no family reads.
    """
    return base64.urlsafe_b64encode(zlib.compress(_compact(_canonical(config)), 9)).decode()


def planned_config(model: Model) -> str:
    """A model's config as a plan carries it.

    Raises:
        ValueError: it cannot be planned, not even once its layers are measured.
    """
    if model.architecture is None and not measured.waits(model.unsupported_reason):
        raise ValueError(f"{model.name} cannot be planned: {model.unsupported_reason}.")
    return encode_config(model.config)


def decode_config(text: str) -> dict[str, Any]:
    """The config that :func:`encode_config` wrote, validated again; ``ValueError`` if bad."""
    if len(text) > MAX_ENCODED or not URL_SAFE.fullmatch(text):
        raise ValueError("config: the link's config is damaged or too long; paste the file again.")
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.urlsafe_b64decode(text), MAX_BYTES)
    except (ValueError, zlib.error):
        raise ValueError("config: the link's config is damaged; paste the file again.") from None
    if not inflate.eof or inflate.unused_data or inflate.unconsumed_tail:
        raise ValueError("config: the link's config is cut short or too large; paste it again.")
    return _canonical(read_object(data, infinity=True))


def _canonical(config: Mapping[str, Any]) -> dict[str, Any]:
    seen = seen_in(config)
    text = text_config(config)
    family = read(text)
    if family is not None:
        written = family.canonical()
    else:
        row, _ = twin(text)
        written = twin_config(text, row) if row else spot.canonical(text)
    return {**written, "seen": seen} if seen else written


def _compact(config: Mapping[str, Any]) -> bytes:
    return json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
