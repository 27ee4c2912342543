"""From the top of the spine down: the roots, one level of a run of parents, and everything below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spine.allocations import Allocation
from spine.hierarchy import Spine
from spine.top_down.histogram import Estimates, Product
from spine.top_down.invariants import Invariants
from spine.top_down.measurements import Measure

Rounding = Literal["program", "l1"]
Solver = Literal["copied", "own", "own, careful", "piqp", "clarabel", "best iterate"]


class EstimationError(Exception):
    """An estimate would break a sum or an invariant: the step and the rule, never a count."""


@dataclass(frozen=True)
class Plan:
    """What is public of an estimation.

    product: PERSONS or UNITS. spine: with its shares; its top level is one root or a forest of states' parts.
    allocation: budget and shares alpha, for (at least) the spine's levels. invariants: declared, on the spine's levels.
    rounding: the production program's objective, or the L1 distance to the least-squares solution at every query.
    rows: about how many geounits are measured at once (memory: rows x 2,603 counts).
    """

    product: Product
    spine: Spine
    allocation: Allocation
    invariants: Invariants
    rounding: Rounding = "program"
    rows: int = 512


@dataclass(frozen=True)
class Solve:
    """How one parent's children were found. Public: a function of noisy answers and invariants.

    level: index of the children's level. parent: number of the parent on the level above (at the roots: of the state).
    children, cells: the size of the problem. iterations: of least squares. solver: what gave the result. violation:
    the largest by which a band, bound or sum was missed. rounding: "flow", or "highs" where the flow failed.
    least_squares_seconds, rounding_seconds: processor time.
    """

    level: int
    parent: int
    children: int
    cells: int
    iterations: int = 0
    solver: Solver = "own"
    violation: float = 0.0
    rounding: Literal["flow", "highs", "none"] = "flow"
    least_squares_seconds: float = 0.0
    rounding_seconds: float = 0.0


def estimate_roots(plan: Plan, measure: Measure) -> tuple[Estimates, list[Solve]]:
    """The top level of the spine: each state's parts (or the nation) sum to the declared total, and meet the bounds."""
    raise NotImplementedError


def estimate_children(plan: Plan, parents: Estimates, measure: Measure) -> tuple[Estimates, list[Solve]]:
    """The children of a run of parents: for each parent they sum to it, cell by cell, and meet the invariants."""
    raise NotImplementedError


def estimate_below(plan: Plan, parents: Estimates, measure: Measure) -> tuple[list[Estimates], list[Solve]]:
    """Every level below a run of parents, top first."""
    raise NotImplementedError
