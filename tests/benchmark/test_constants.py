"""A card's memory constants, read from counters that the test plays; and two real processes."""

from __future__ import annotations

from planner.benchmark.run.communicator import communicator_bytes
from planner.benchmark.run.constants import Reading
from planner.catalog.card_benchmark import Constants

MIB = 2**20
OTHERS, CONTEXT, WORKSPACE, CUDNN, LATER = (size * MIB for size in (900, 520, 32, 40, 150))
BLOCK = 512


class PlayedCard:
    """A card on which each library takes its memory at its first use, in the order of reading.

    After the first tensor there is the context; the product's workspace, and the backward's, are in
    the allocator; the convolution's code is outside it, and so is what later kernels load.
    """

    def __init__(self) -> None:
        # One tensor; its product; its gradient.
        self.allocated = iter((BLOCK, 2 * BLOCK + WORKSPACE, 3 * BLOCK + 2 * WORKSPACE))
        self.used = iter((0, 0, CUDNN, CUDNN + LATER))
        self.reserved = 66 * MIB

    def total_bytes(self) -> int:
        return 80_000 * MIB

    def used_bytes(self) -> int:
        return OTHERS + CONTEXT + self.reserved + next(self.used)

    def reserved_bytes(self) -> int:
        return self.reserved

    def allocated_bytes(self) -> int:
        return next(self.allocated)


def read(others_bytes: int | None) -> Constants:
    reading = Reading(PlayedCard(), "cpu", others_bytes)
    reading.start()
    assert reading.context_with_others_bytes == OTHERS + CONTEXT
    assert reading.product_bytes == (BLOCK + WORKSPACE, 2 * BLOCK + 2 * WORKSPACE)
    return reading.finish()


def test_what_each_library_takes_is_told_apart() -> None:
    found = read(OTHERS)
    assert found.context_bytes == CONTEXT
    assert found.loaded_bytes == CONTEXT + CUDNN + LATER
    assert (found.cublas_forward_bytes, found.cublas_backward_bytes) == (WORKSPACE, WORKSPACE)
    assert found.cudnn_bytes == CUDNN
    assert found.nccl_bytes is None, "one card cannot tell"


def test_without_the_drivers_word_on_others_nobodys_context_is_known() -> None:
    found = read(None)
    assert found.context_bytes is None and found.loaded_bytes is None
    assert found.cublas_forward_bytes == WORKSPACE


def test_two_processes_meet_and_say_what_they_saw() -> None:
    assert communicator_bytes(("cpu", "cpu")) == 0


def test_a_process_that_fails_leaves_nothing_known() -> None:
    assert communicator_bytes(("cpu", "nonsense")) is None
