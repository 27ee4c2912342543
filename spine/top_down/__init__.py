"""The estimation of the TopDown Algorithm: from noisy answers of every geounit to private histograms of every block.

Follows "The 2020 Census Disclosure Avoidance System TopDown Algorithm" (Abowd et al. 2022) as the redistricting run
executed it. From the top of the spine down, each parent's histogram is divided among its children: weighted least
squares on the children's noisy answers under the parent's counts and the invariants, then a rounding to integers.

The contract
    Estimation reads three things, all noisy or public: a `Plan` (spine with shares, allocation, declared invariants),
    a callable `measure(level, first, last) -> NoisyAnswers`, and the estimates of the parents. No argument can carry
    an exact count of records: `TrueHistograms` and `exact_answers` are for measuring, and nothing here takes them.
    Everything is deterministic: the same answers give the same estimates, bit by bit, in any order or partition of the
    work (no fused or reordered floating-point operations are compiled).

The steps, each returning `Estimates` of a range of geounits and a `Solve` for each parent solved
    estimate_roots(plan, measure)               the top level: the nation, or the parts of each state of a forest
    estimate_children(plan, parents, measure)   one level down, for the children of a range of parents
    estimate_below(plan, parents, measure)      all levels below, as a list of `Estimates`, top first

The estimator
    `Plan.estimator` "topdown" is the production program's: a parent is divided by its children's own answers. "gls"
    is not the program of 2020: it divides by what the children and everything below them say (`tree`, generalized least
    squares over the whole spine), with the same passes, bounds and rounding; blocks have nothing below, so theirs is
    the program's step. It needs a pass up the spine before the descent: `Information` (h, P) of geounits, made of the
    same noisy answers, so that it is public and costs no budget.

    up_pass(plan, measure, level, first, last)  information of these geounits, and of all levels below but the blocks
    up_pass_above(plan, measure, told)          of all levels above, from that of all geounits of one level
    estimate_*(..., known)                      what passes found; what is not among it is found by another pass up

A unit of work
    (1) `estimate_roots`, then `estimate_children` down to the counties, a task a state. (2) `estimate_below` of one
    county (`counties.only(geounit)`), independent of every other. `measure` is asked for ranges of at most `Plan.rows`
    geounits (or one parent's children) of one level, in spine order, once ("gls": twice).
    With "gls" a task a county comes first, `up_pass(plan, measure, level, county, county + 1)[0]`: 18 kB to keep. (1)
    joins them (`information_joined`), passes up (`up_pass_above`), and gives the result to `estimate_roots` and
    `estimate_children`; under a US root the states' parts take the place of the counties. (2) is as before:
    `estimate_below` repeats the pass up of its county in memory, which asks `measure` for everything once more.
    Under a US root the spine of the first task is US and State only: its "blocks" are the states' parts.

Failures
    A parent whose least squares does not converge is solved again with other settings, then by an installed reference
    solver (`das-flows[solvers]`); otherwise the best feasible iterate goes on. Each is told in its `Solve`. Estimates
    that would break an invariant or a sum raise `EstimationError`, which names the step and the rule, never a count.

Kernels are compiled by numba at first use and cached where NUMBA_CACHE_DIR points when numba is first imported; that is
when a name of the estimation is first asked for, not when this package is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spine.top_down.histogram import PERSONS, PRODUCTS, UNITS, Estimates, Product, TrueHistograms, joined, summed
from spine.top_down.invariants import Invariants, invariants
from spine.top_down.measurements import Measure, NoisyAnswers
from spine.top_down.queries import exact_answers, query_group

if TYPE_CHECKING:
    from spine.top_down.descend import EstimationError, Solve, estimate_below, estimate_children, estimate_roots
    from spine.top_down.plan import Estimator, Plan, Rounding
    from spine.top_down.tree import Information, information_joined
    from spine.top_down.upward import up_pass, up_pass_above

_COMPILED = {
    "descend": ("EstimationError", "Solve", "estimate_below", "estimate_children", "estimate_roots"),
    "plan": ("Estimator", "Plan", "Rounding"),
    "tree": ("Information", "information_joined"),
    "upward": ("up_pass", "up_pass_above"),
}
_MODULES = {name: f"spine.top_down.{module}" for module, names in _COMPILED.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what needs compiled kernels, and with it numba, when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


__all__ = [
    "PERSONS",
    "PRODUCTS",
    "UNITS",
    "Estimates",
    "EstimationError",
    "Estimator",
    "Information",
    "Invariants",
    "Measure",
    "NoisyAnswers",
    "Plan",
    "Product",
    "Rounding",
    "Solve",
    "TrueHistograms",
    "estimate_below",
    "estimate_children",
    "estimate_roots",
    "exact_answers",
    "information_joined",
    "invariants",
    "joined",
    "query_group",
    "summed",
    "up_pass",
    "up_pass_above",
]
