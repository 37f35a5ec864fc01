"""The model that embeds: a local folder or a Hub id, what it is known by, and how wide it is.

Safetensors only, no code that comes with a model, no token sent to the Hub. No torch; the Hub's
library is imported where a Hub id is asked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.catalog.hub import REPO_ID
from planner.catalog.safe_json import read_object

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
INDEX_BYTES = 64 * 2**20
WANTED = ("config.json", "*.safetensors", INDEX, "tokenizer*.json", "special_tokens_map.json",
          "chat_template.jinja")
"""Files of a repository that are asked for; no pickle and no code is."""
REVISION = re.compile(r"[\w.\-/]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model on this machine."""

    folder: Path
    name: str
    """The Hub id, or the folder as it was given."""
    identity: str
    """``revision`` and the commit, or ``sha256`` of config.json and weights."""
    config: dict[str, Any]

    def width(self, embedding: str) -> int:
        """Values of one embedding: the vocabulary's size, or the hidden size.

        Raises:
            ValueError: where the config does not say.
        """
        key = "vocab_size" if embedding == "logits" else "hidden_size"
        text = self.config.get("text_config")
        for place in (self.config, text if isinstance(text, dict) else {}):
            found = place.get(key)
            if isinstance(found, int) and 0 < found <= 2**20:
                return found
        raise ValueError(f"model: its config.json has no {key}, so nobody knows the width.")


def source_of(model: str, revision: str = "") -> Source:
    """The model of a folder's path or a Hub id; the latter is fetched where it is not here.

    Raises:
        ValueError: naming ``model``, and what is missing.
    """
    if Path(model).is_dir():
        if revision:
            raise ValueError("revision: a folder has none; leave it out.")
        folder = Path(model).resolve()
        files = checked(folder)
        identity = f"sha256 {_digest([folder / 'config.json', *files])}"
    elif REPO_ID.fullmatch(model):
        folder = _fetched(model, revision)
        checked(folder)
        identity = f"revision {folder.name}"
    else:
        raise ValueError(f"model: {model[:80]!r} is neither a folder here nor a Hub id.")
    try:
        config = read_object((folder / "config.json").read_bytes(), "model")
    except OSError as error:
        raise ValueError(f"model: its config.json cannot be read: {error.strerror}.") from None
    return Source(folder=folder, name=model, identity=identity, config=config)


def checked(folder: Path) -> list[Path]:
    """The safetensors files of a folder that can embed prompts.

    Raises:
        ValueError: naming ``model``, and what is missing or leads out of the folder.
    """
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            raise ValueError(f"model: {folder} has no {name}; give a folder that has one.")
    index = folder / INDEX
    if not index.is_file():
        if not (folder / SINGLE).is_file():
            raise ValueError(
                f"model: {folder} has neither {SINGLE} nor {INDEX}; only safetensors are read, "
                "and no pickles. Save it with save_pretrained(…, safe_serialization=True)."
            )
        return [folder / SINGLE]
    try:
        if index.stat().st_size > INDEX_BYTES:
            raise ValueError("it is too large")
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        if not names or not all(name == Path(name).name for name in names):
            raise ValueError("it names files elsewhere")
        if not all(name.endswith(".safetensors") and (folder / name).is_file() for name in names):
            raise ValueError("it names files that are no safetensors here")
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"model: {INDEX} cannot be read: {error}.") from None
    return [folder / name for name in names]


def _digest(files: list[Path]) -> str:
    """SHA-256 of some files' names and contents."""
    total = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{path.name} {own}\n".encode())
    return total.hexdigest()


def _fetched(model: str, revision: str) -> Path:
    """The snapshot of a Hub model, whose folder is named after its commit."""
    from huggingface_hub import snapshot_download

    if revision and not REVISION.fullmatch(revision):
        raise ValueError("revision: not a branch, tag or commit of the Hub.")
    try:
        return Path(
            snapshot_download(
                model, revision=revision or None, allow_patterns=list(WANTED), token=False
            )
        )
    except Exception as error:  # the library's own, the network's
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"model: {model} cannot be had from the Hub: {said}.") from None
