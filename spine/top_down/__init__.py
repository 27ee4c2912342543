"""The estimation of the TopDown Algorithm: from noisy answers of every geounit to private histograms of every block.

Follows "The 2020 Census Disclosure Avoidance System TopDown Algorithm" (Abowd et al. 2022) as the redistricting run
executed it. From the top of the spine down, each parent's histogram is divided among its children: weighted least
squares on the children's noisy answers under the parent's counts and the invariants, then a rounding to integers.

The contract
    Estimation reads three things, all noisy or public: a `Plan` (spine with shares, allocation, declared bounds),
    `OwnAnswers`, which ask a callable `measure(level, first, last) -> NoisyAnswers`, and the estimates of the parents.
    No argument can carry an exact count of records: `TrueHistograms` and `exact_answers` are for measuring, and nothing
    here takes them. Everything is deterministic: the same answers give the same estimates, bit by bit, in any order or
    partition of the work (no fused or reordered floating-point operations are compiled).

The steps, each returning `Estimates` of a range of geounits and a `Solve` for each parent solved
    estimate_roots(plan, answers)               the top level: one root, or a forest of roots with declared totals
    estimate_children(plan, parents, answers)   one level down, the children of a range of parents

    answers = OwnAnswers(plan, measure) is the program's: a parent is divided by its children's own noisy answers.
    Another estimator, `spine.gls`, passes `TreeAnswers`.

Reading it together with the paper
    plan            the query groups of each pass           queries                 query groups and their variances
    bounds          declared counts                         own_answers             a parent's objective and constraints
    descend         the passes of a parent, level by level
    solve_parent    fallbacks of solvers                    least_squares, totals   its kernels: last pass and pass 0
    rounding, flow  integers                                projection              onto the constraints
    general_solvers   if the flow fails, or the kernels do not converge

A unit of work
    (1) `estimate_roots`, then `estimate_children` down to the counties, a task a state. (2) The levels below one county
    (`counties.only(geounit)`), independent of every other. `measure` is asked for ranges of at most `Plan.rows`
    geounits (or one parent's children) of one level, in spine order, once.
    Under a US root the spine of the first task is US and State only: its "blocks" are the states' parts.

Failures
    A parent whose least squares does not converge is solved again with other settings, then by general solvers;
    otherwise the best iterate is used, if it misses bounds by less than half a person. Its `Solve` says which.
    Estimates that would break an invariant or a sum raise `EstimationError`, which names the step and the rule, never a
    count.

Kernels are compiled by numba at first use and cached where NUMBA_CACHE_DIR points when numba is first imported: when a
name of the estimation is first asked for, not when this package is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spine.top_down.bounds import Bounds, Totals, sum_bounds
from spine.top_down.histogram import Estimates, Product, TrueHistograms, joined, summed
from spine.top_down.plan import Passes, Plan
from spine.top_down.queries import Measure, NoisyAnswers, exact_answers, query_group

if TYPE_CHECKING:
    from spine.top_down.descend import Solve, estimate_children, estimate_roots
    from spine.top_down.own_answers import OwnAnswers
    from spine.top_down.solve_parent import EstimationError

_MODULES = {
    "OwnAnswers": "own_answers",
    "EstimationError": "solve_parent",
    **dict.fromkeys(("Solve", "estimate_children", "estimate_roots"), "descend"),
}


def __getattr__(name: str) -> Any:
    """Import a module with compiled kernels, and with it numba, at the first access to its names."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"spine.top_down.{_MODULES[name]}"), name)


__all__ = [
    "Bounds",
    "Estimates",
    "EstimationError",
    "Measure",
    "NoisyAnswers",
    "OwnAnswers",
    "Passes",
    "Plan",
    "Product",
    "Solve",
    "Totals",
    "TrueHistograms",
    "estimate_children",
    "estimate_roots",
    "exact_answers",
    "joined",
    "query_group",
    "sum_bounds",
    "summed",
]
