"""Draws sentences by lot, to be read by somebody who has not seen the code: docs/words-read.md.

Run: ``PYTHONPATH=tests .venv/bin/python tests/drawn_sentences.py SEED``.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterable, Iterator

from test_words import Sentence, documents, of_document, of_product

OF_THE_PRODUCT, OF_DOCUMENTS = 120, 80
CODE = re.compile(r"[{}<>=|\\_]|\n\s+\S|^\s*[-#*]|https?:|::|--|\.py\b")
"""Templates of programs, markup, options and expressions; a table's row."""
PLAIN = re.compile(r"[A-Z][^!?]*[.!?]")
"""From its capital to its stop."""
FEWEST_WORDS = 5


def sentences(texts: Iterable[Sentence]) -> Iterator[str]:
    """Each whole sentence, once, in the order in which it is found."""
    met: set[str] = set()
    for text in texts:
        for part in re.split(r"(?<=[.!?])\s+", " ".join(text.text.split())):
            whole = PLAIN.fullmatch(part) and len(part.split()) >= FEWEST_WORDS
            if whole and not CODE.search(part) and part not in met:
                met.add(part)
                yield part


def drawn(seed: int) -> list[str]:
    """Of pages, verdicts, advice, errors and the command line first, then of documents."""
    lot = random.Random(seed)
    product = [*sentences(of_product())]
    pages = (text for path in documents(following=False) for text in of_document(path))
    return [
        *lot.sample(product, OF_THE_PRODUCT),
        *lot.sample([*sentences(pages)], OF_DOCUMENTS),
    ]


if __name__ == "__main__":
    for number, one in enumerate(drawn(int(sys.argv[1])), 1):
        print(f"{number}. {one}")
