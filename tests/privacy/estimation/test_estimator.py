import numpy as np
import pytest
from estimation_cases import DETAILS, answers, estimator

from privacy.estimation.estimator import FALSE_DROP, critical_value, make_estimator


def far(definition, level, cells):
    return make_estimator(answers(definition, level, cells), None, None)


def test_the_critical_values_of_production():
    """Sub-state against state, tract against county (Detailed), tract against county (Regional)."""
    group, regional = estimator("zcdp", "sub-state", 1), far("zcdp", "L1", 1)
    result = {1: (17, 23, 101), 8: (19, 38, 170), 18: (20, 44, 197), 46: (20, 49, 218)}
    for cells in DETAILS:
        ancestors = [
            make_estimator(answers("zcdp", level, cells), None, None) for level in ("nation/state", "sub-state")
        ]
        values = [critical_value(group, ancestor) for ancestor in ancestors]
        values.append(critical_value(regional, make_estimator(answers("zcdp", "L1", cells), None, None)))
        assert tuple(values) == result[cells]


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_a_group_that_is_there_is_seldom_dropped(definition):
    """Exactly: P(E_g - E_h > c) is at most .00135, and above it at c - 1."""
    group, ancestor = (
        make_estimator(answers(definition, level, 1), None, None) for level in ("sub-state", "nation/state")
    )
    c = critical_value(group, ancestor)
    difference = np.convolve(group.error_law(), ancestor.error_law())
    values = np.arange(len(difference)) - len(difference) // 2
    assert difference[values > c].sum() <= FALSE_DROP < difference[values > c - 1].sum()


def test_an_unpooled_estimate_is_tested_too():
    group = far("puredp", "nation/state", 1)
    assert group.weight == 0
    assert critical_value(group, group) > 0
