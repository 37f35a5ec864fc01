"""Laws of lengths: each form is chosen by lengths left out, none believed beyond one it misses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from planner.formulas.length_law import (
    CHUNK,
    PLAIN,
    STEP,
    WINDOW,
    Law,
    Proof,
    choose,
    error_of,
    law_of,
    proof_of,
)
from planner.formulas.polynomial import Polynomial, through, value

LENGTHS = (256, 512, 1024)
HELD = (784, 2048, 4096, 8192)
LAWS = (Law(CHUNK, 128), Law(), Law(WINDOW, 2048))

Bytes = Callable[[int, int], int]


def solved(law: Law, bytes_of: Bytes) -> Polynomial:
    sizes = law.solved_from(LENGTHS)
    seconds = [int(law.second(size)) for size in sizes] if law.form != PLAIN else []
    two, three = ([bytes_of(rows, size) for size in sizes] for rows in (2, 3))
    return through(sizes, seconds, two, three)


def tried(law: Law, bytes_of: Bytes) -> tuple[tuple[Law, Polynomial], Mapping[int, float]]:
    found = solved(law, bytes_of)
    errors = {
        tokens: error_of([value(found, 2, tokens, law.second(tokens))], [bytes_of(2, tokens)])
        for tokens in HELD
    }
    return (law, found), errors


def affine(rows: int, tokens: int) -> int:
    return 700 * rows * tokens + 12_000 * rows + 96


def quadratic(rows: int, tokens: int) -> int:
    return 700 * rows * tokens + 3 * rows * tokens**2 + tokens**2


def in_chunks(rows: int, tokens: int) -> int:
    full = -(-tokens // 128) * 128
    return 90 * rows * tokens + 5000 * rows * full + rows * full**2


def in_steps(rows: int, tokens: int) -> int:
    full = -(-tokens // 64) * 64
    return 5000 * rows * full + rows * full**2


def in_a_window(rows: int, tokens: int) -> int:
    return 90 * rows * tokens + 4 * rows * tokens * min(tokens, 2048)


def cubic(rows: int, tokens: int) -> int:
    return rows * (100_000 * tokens + tokens**3 // 64)


@pytest.mark.parametrize(
    ("bytes_of", "laws", "form"),
    [
        (affine, (Law(), Law(WINDOW, 2048)), PLAIN),
        (quadratic, (Law(), Law(WINDOW, 2048)), PLAIN),
        (in_chunks, LAWS, CHUNK),
        (in_steps, (Law(), Law(STEP, 64), Law(WINDOW, 2048)), STEP),
        (in_a_window, (Law(), Law(WINDOW, 2048)), WINDOW),
    ],
)
def test_each_form_is_chosen_where_it_is_the_one(
    bytes_of: Bytes, laws: tuple[Law, ...], form: str
) -> None:
    (law, found), proof = choose(tried(law, bytes_of) for law in laws)
    assert law.form == form
    assert proof == Proof(8192, 0) and proof.longest == 16_384
    for rows, tokens in ((2, 300), (5, 1000), (3, 2048), (1, 16_384)):
        assert value(found, rows, tokens, law.second(tokens)) == bytes_of(rows, tokens)


def test_an_affine_law_is_a_polynomial_without_squares() -> None:
    assert solved(Law(), affine) == (700, 0, 0, 12_000, 0, 96)


def test_the_first_law_that_meets_all_ends_the_search() -> None:
    asked = []

    def one(law: Law) -> tuple[tuple[Law, Polynomial], Mapping[int, float]]:
        asked.append(law)
        return tried(law, affine)

    choose(map(one, LAWS))
    assert asked == [LAWS[0]]


def test_where_no_law_meets_what_was_held_out_the_lengths_that_hold_are_the_answer() -> None:
    """Between the lengths that it is solved from a parabola follows a cube; beyond it does not."""
    _, proof = choose(tried(law, cubic) for law in LAWS[:2])
    assert proof == Proof(784, 2048) and proof.longest == 784


def test_of_laws_that_fail_the_one_that_answers_for_the_longest_is_taken() -> None:
    bad = {816: 0.5, 2048: 0.0}
    better = {816: 0.01, 2048: 0.0, 4096: 0.021}
    best, proof = choose([("bad", bad), ("better", better)])
    assert (best, proof) == ("better", Proof(2048, 4096))
    assert proof.longest == 2048, "no further than the longest that held"


@pytest.mark.parametrize(
    ("errors", "proof", "longest"),
    [
        ({}, Proof(0, 0), 0),
        ({816: 0.0, 2048: 0.02}, Proof(2048, 0), 4096),
        ({816: 0.0, 2048: 0.0201}, Proof(816, 2048), 816),
        ({816: 0.03, 2048: 0.0}, Proof(0, 816), 0),
    ],
)
def test_a_law_is_believed_as_far_as_it_was_proved(
    errors: Mapping[int, float], proof: Proof, longest: int
) -> None:
    assert proof_of(errors) == proof
    assert proof.longest == longest


def test_small_figures_are_missed_by_what_matters() -> None:
    assert error_of([0, 1000], [20, 1000]) == pytest.approx(20 / 100)
    assert error_of([980, 100], [1000, 100]) == pytest.approx(0.02)


def test_a_law_is_as_a_setting_keeps_it() -> None:
    assert law_of({}) == Law()
    assert law_of({"law": [CHUNK, 64]}) == Law(CHUNK, 64)
    assert Law(CHUNK, 64).second(65) == 128
    assert Law(WINDOW, 64).second(65) == 64
    assert Law(WINDOW, 700).solved_from(LENGTHS) == [768, 1536, 3072, 175, 350]
