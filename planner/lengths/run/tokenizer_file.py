"""Texts to numbers of tokens, by a ``tokenizer.json`` that anybody may have written.

Read by the ``tokenizers`` library, which runs no code of it. What it does in Rust may take long or
end its process: whoever gives it a stranger's file does so in a process that can be ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from planner.lengths.counted import Tokenizer

LARGEST_BYTES = 64 * 2**20
"""Gemma's, the largest of the catalog's models, is 33 MB."""
KINDS = ("BPE", "Unigram", "WordLevel", "WordPiece")
INSTEAD = "give the tokenizer.json that lies beside the model's config.json"


def tokenizer_of_file(content: bytes) -> Tokenizer:
    """The counter of a ``tokenizer.json``, which counts the token that ends a response.

    Raises:
        ValueError: naming ``tokenizer``, where it is none.
    """
    from tokenizers import Tokenizer as Library

    text = _text(content)
    try:
        known: Any = Library.from_str(text)
        known.no_truncation()
        known.no_padding()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises bare exceptions, and panics of Rust
        first = str(error).strip().partition("\n")[0][:200]
        raise ValueError(f"tokenizer: it cannot be read ({first}); {INSTEAD}.") from None

    def count(texts: Sequence[str]) -> list[int]:
        found = known.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(one.ids) + 1 for one in found]

    return count


def _text(content: bytes) -> str:
    """The file as text, once it is one JSON object with a model of a kind that there is."""
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"tokenizer: more than {LARGEST_BYTES // 2**20} MiB; {INSTEAD}.")
    try:
        text = content.decode("utf-8-sig")
        found = json.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"tokenizer: not UTF-8 text; {INSTEAD}.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"tokenizer: not JSON ({where}); {INSTEAD}.") from None
    except (RecursionError, ValueError):
        raise ValueError(f"tokenizer: nested too deep or absurd numbers; {INSTEAD}.") from None
    model = found.get("model") if isinstance(found, dict) else None
    kind = model.get("type", "BPE") if isinstance(model, dict) else None
    if kind not in KINDS:
        raise ValueError(f"tokenizer: no model of a tokenizer is in it; {INSTEAD}.")
    return text
