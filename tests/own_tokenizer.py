"""A tokenizer's file that makes a token of each word, and files of texts for it."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers


def words_file(**more: Any) -> bytes:
    """It would cut and fill rows if it were let; ``more`` replaces parts of it."""
    known = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    known.enable_truncation(2)
    known.enable_padding(length=50)
    return json.dumps({**json.loads(known.to_str()), **more}).encode()


def lines(*texts: str) -> bytes:
    """Texts as JSON lines."""
    return "\n".join(json.dumps({"completion": text}) for text in texts).encode()
