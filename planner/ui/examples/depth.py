"""What stands below the cards, folded: each document in depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.examples.documents import Document
from planner.ui.elements import folded
from planner.ui.examples import documents, grade

DEPTH: Mapping[str, Callable[[], None]] = {
    "000": documents.intuitor_against_ppo,
    "001": grade.optimised,
    "002": grade.out_of_memory,
    "004": documents.activations,
}


def folded_below(document: Document) -> None:
    """One document's figures, tables, runs and plans, drawn when it is opened."""
    if (draw := DEPTH.get(document.number)) is None:
        return
    with folded(document.title, f"depth-{document.number}", ":material/menu_book:") as is_open:
        if is_open:
            draw()
