"""Which of equal tensors a message means: each fact alone, on steps written by hand.

Sizes are in MiB; segments are multiples of 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from planner.importer.allocations import Allocation
from planner.importer.candidates import candidates
from planner.importer.memory_errors.message import Size, printed
from planner.term import Term
from planner.units import MIB


def allocation(name: str, size: float, before: float, **more: Any) -> Allocation:
    """``size`` each, allocated when ``before`` is; others by the field's name, in MiB."""
    term = Term(name, "policy", "activations", 0, "", {}, "")
    rest = {"many": 1, "least": before, "outside": 1000, "unused": 0, "first": False} | more
    return Allocation(
        phase=rest.get("phase", name),
        instant=name,
        term=term,
        tensor_bytes=int(size * MIB),
        many=rest["many"],
        before_bytes=int(before * MIB),
        least_bytes=int(rest["least"] * MIB),
        held_bytes=int(size * MIB),
        outside_bytes=int(rest["outside"] * MIB),
        unused_bytes=int(rest["unused"] * MIB),
        first=rest["first"],
    )


def named(steps: Sequence[Allocation], **sizes: str) -> list[str]:
    """Names of the candidates, likeliest first; sizes as torch prints them."""
    read: dict[str, Size] = {}
    for name, text in sizes.items():
        size = printed(*text.split())
        assert size is not None
        read[name] = size
    return [one.allocation.term.name for one in candidates(steps, read)]


def gib(mib: float) -> str:
    return f"{mib / 1024:.2f} GiB"


def test_segments_are_whole_where_the_sentence_is_fine_enough_to_tell() -> None:
    """4.39 MiB apart prints alike; only one leaves an even number of MiB."""
    steps = (
        *(allocation("load", 1, 0, many=1700), allocation("rest", 1, 0)),
        *(allocation("head", 98, 1680.36), allocation("embedding", 98, 1675.97)),
    )
    told = {"asked": "98.00 MiB", "allocated": gib(1678)}
    assert named(steps, **told, unallocated="36.03 MiB")[0] == "embedding"
    assert named(steps, **told, unallocated="35.64 MiB")[0] == "head"
    assert named(steps, **told, unallocated="1.10 GiB")[0] == "head"


def test_of_equal_tensors_together_one_has_to_be_where_memory_was() -> None:
    """40 of 1,000: the 30th begins at 31,000, none at 31,300."""
    steps = (allocation("three", 1000, 29_300, many=3), allocation("forty", 1000, 2000, many=40))
    assert named(steps, asked="1000.00 MiB", allocated=gib(31_000))[0] == "forty"
    assert named(steps, asked="1000.00 MiB", allocated=gib(31_300))[0] == "three"


def test_small_tensors_share_segments() -> None:
    """A hundred of 0.25 MiB buy twelve segments, one of 2 KiB hardly ever one."""
    steps = (allocation("one", 0.002, 5000), allocation("hundred", 0.25, 4985, many=100))
    assert named(steps, asked="2.00 MiB", allocated=gib(5000))[0] == "hundred"


def test_memory_is_in_pieces_only_after_something_was_given_back() -> None:
    """Both ask for the same; before the first one nothing was freed, before the other 8,000."""
    steps = (
        allocation("rollout", 640, 30_000),
        allocation("between", 8000, 22_000),
        allocation("validation", 640, 30_000),
    )
    told = {"asked": "640.00 MiB", "allocated": gib(30_000)}
    assert named(steps, **told, unallocated="3.00 GiB")[0] == "validation"
    assert named(steps[::2], **told, unallocated="0 bytes")[0] == "rollout"


@pytest.mark.parametrize(
    ("trainer", "engine", "card", "first"),
    [(3050, 70_000, 9000, "sync"), (20_000, 5100, 26_000, "load")],
)
def test_an_engine_that_fills_another_card_is_no_sign_of_an_earlier_failure(
    trainer: float, engine: float, card: float, first: str
) -> None:
    """On 9,000 MiB an engine of 70,000 took less; 20,000 that a trainer holds are a true peak."""
    steps = (
        allocation("load", 500, 3000),
        allocation("generation", 1, trainer, outside=engine),
        allocation("sync", 500, 3050, outside=4900),
    )
    told = {"asked": "500.00 MiB", "allocated": gib(3050), "unallocated": "10.00 MiB"}
    told |= {"total": gib(card), "free": gib(card - 4900 - 3060)}
    assert named(steps, **told)[0] == first
