from __future__ import annotations

import numpy as np
import pytest
from top_down_cases import everything, measuring, plan_of, problems_of, small_state

from spine.top_down.own_answers import ParentProblem


@pytest.fixture(scope="session")
def parents() -> list[tuple[bool, ParentProblem, np.ndarray]]:
    """Every parent of two small states: whether totals come first, its problem, its least-squares solution."""
    found = []
    for seed in (1, 2):
        state = small_state(seed, parts=seed)
        plan = plan_of(state)
        measure = measuring(plan, state.persons, seed)
        found += [given[:3] for given in problems_of(lambda plan=plan, measure=measure: everything(plan, measure))]
    return found
