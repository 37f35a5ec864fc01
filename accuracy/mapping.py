"""Row id → how it is predicted, or why it is not. One module per framework has the facts."""

from __future__ import annotations

from functools import cache

from accuracy import others, prime_rl, torchtune, verl
from accuracy.prediction import Mapping
from accuracy.published import rows


@cache
def mappings() -> dict[str, Mapping]:
    """Every published row's mapping, in the order of the published file.

    Raises:
        KeyError: naming a row that has none.
        ValueError: naming a mapping without a row, or two mappings of one row.
    """
    found: dict[str, Mapping] = {}
    for module in (prime_rl, verl, others, torchtune):
        for mapping in module.mappings():
            if mapping.id in found:
                raise ValueError(f"{mapping.id} is mapped twice")
            found[mapping.id] = mapping
    extra = set(found) - {row.id for row in rows()}
    if extra:
        raise ValueError(f"no published row is called {', '.join(sorted(extra))}")
    return {row.id: found[row.id] for row in rows()}
