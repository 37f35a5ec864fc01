"""What a reference gave a fixed data set, on disk: made once, and never read when stale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from torch import Tensor

PER_FILE = 256
"""Pairs in one file of a cache: a run that is stopped begins again at the last whole one."""


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_of(name: str, revision: str | None) -> str:
    """The commit of a model on the Hub; of a local folder the digest of its weights."""
    folder = Path(name)
    if folder.is_dir():
        files = sorted(folder.glob("*.safetensors"))
        digests = "".join(digest_of(file) for file in files)
        return hashlib.sha256(digests.encode()).hexdigest()
    config = transformers.AutoConfig.from_pretrained(
        name, revision=revision, trust_remote_code=False
    )
    return str(config._commit_hash)


def identity(
    plan: Mapping[str, Any], model: str, revision: str | None, data: str, pairs: int
) -> dict[str, Any]:
    """What a cache has to have been made of, to be of use."""
    return {
        "reference": plan["reference"],
        "model": model,
        "revision": weights_of(model, revision),
        "data": digest_of(Path(data)),
        "dtype": plan["dtype"],
        "prompt_tokens": plan["prompt_tokens"],
        "response_tokens": plan["response_tokens"],
        "pairs": pairs,
    }


def stale(folder: Path, wanted: Mapping[str, Any]) -> str:
    """Why this cache cannot be used; empty when it can."""
    try:
        found = json.loads((folder / "reference.json").read_text("utf-8"))
    except FileNotFoundError:
        return f"{folder} has no reference.json"
    differing = [name for name, value in wanted.items() if found.get(name) != value]
    said = [f"{name} was {found.get(name)!r} and is {wanted[name]!r}" for name in differing]
    return f"{folder} is stale: {'; '.join(said)}" if said else ""


def file_of(folder: Path, number: int) -> Path:
    """The file of pairs ``number * PER_FILE`` and on."""
    return folder / f"reference-{number:05d}.safetensors"


class Cache:
    """Reads both rows of a pair, from files that stay on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[int, Any] = {}

    def of(self, places: list[int], device: torch.device) -> Tensor:
        """Rows [2 * pairs, …] of these pairs, chosen first."""
        found = []
        for place in places:
            number, row = divmod(place, PER_FILE)
            if number not in self.files:
                path = file_of(self.folder, number)
                self.files[number] = safe_open(path, "pt").get_slice("rows")
            found.append(self.files[number][2 * row : 2 * row + 2])
        return torch.cat(found).to(device)
