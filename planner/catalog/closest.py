"""What to say when a name is not in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(field: str, name: str, known: Iterable[str]) -> str:
    """One sentence that names the field, the bad value and the closest known ones."""
    shown = name if len(name) <= 80 else name[:77] + "..."
    spelling = {option.lower(): option for option in known}
    close = get_close_matches(name.lower()[:160], spelling, n=3, cutoff=0.5)
    hint = ", ".join(spelling[match] for match in close)
    if hint:
        return f"{field}: {shown!r} is not in the catalog; did you mean {hint}?"
    return f"{field}: {shown!r} is not in the catalog."
