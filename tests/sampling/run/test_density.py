"""Weights: rare is favoured or common is; duplicates are neither never drawn nor always."""

from __future__ import annotations

import numpy as np
import pytest

from planner.sampling.run.density import mean_distance, weights
from planner.sampling.run.neighbours import by_sklearn, without_self


def test_a_planted_cluster_is_favoured_or_not_as_was_chosen() -> None:
    # On a line: three prompts at 0, 1, 2, and one at 12. Of two neighbours, by hand: 0 has 1 and 2,
    # mean 1.5; 1 has 1 and 1, mean 1; 2 has 1 and 2, mean 1.5; 12 has 10 and 11, mean 10.5.
    line = np.array([[0.0], [1.0], [2.0], [12.0]], np.float32)
    found = without_self(by_sklearn(line, line, 3), np.arange(4))
    distance = mean_distance(found[0])
    assert distance == pytest.approx([1.5, 1.0, 1.5, 10.5])
    rare = weights(distance, "rare")
    assert rare == pytest.approx(np.array([1.5, 1.0, 1.5, 10.5]) / 14.5)
    common = weights(distance, "common")
    inverse = np.array([2 / 3, 1.0, 2 / 3, 2 / 21])
    assert common == pytest.approx(inverse / inverse.sum())
    assert rare.argmax() == 3 and common.argmax() == 1


def test_duplicates_count_as_the_nearest_of_those_that_are_apart() -> None:
    distance = np.array([0.0, 0.0, 0.5, 2.0])
    assert weights(distance, "rare") == pytest.approx(np.array([0.5, 0.5, 0.5, 2.0]) / 3.5)
    assert weights(distance, "common") == pytest.approx(np.array([1, 1, 1, 0.25]) / 3.25)


@pytest.mark.parametrize("favour", ["rare", "common"])
def test_where_all_are_alike_all_chances_are(favour: str) -> None:
    assert weights(np.zeros(4), favour) == pytest.approx([0.25] * 4)  # type: ignore[arg-type]
