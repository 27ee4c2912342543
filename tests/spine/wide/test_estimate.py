"""The estimation of a wide table: noise off, known sums, zeros and counts, and that unread answers have no effect."""

from __future__ import annotations

import numpy as np
import pytest
from wide import Tree, tree

from spine.wide.rounding import Rounding


@pytest.fixture(scope="module")
def made() -> Tree:
    return tree()


@pytest.mark.parametrize("how", ["program", "carried"])
def test_without_noise_the_estimates_are_the_truth(made: Tree, how: Rounding) -> None:
    levels, _, _ = made.estimate(made.noisy(0.0), how)
    for estimate, true in zip(levels, made.truth, strict=True):
        np.testing.assert_array_equal(estimate.starts, true.starts)
        np.testing.assert_array_equal(estimate.cell, true.cell)
        np.testing.assert_array_equal(estimate.count, true.count)
