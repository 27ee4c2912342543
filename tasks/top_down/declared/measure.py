"""A run of a declaration as the source of its measurements: one hierarchy in place of the states.

The noise of a query group is the stream `tda/NAME/LEVEL/QUERY`, NAME the declaration's; its row is the number of the
geounit on the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from privacy.accounting.states import EVERYWHERE
from spine.gls.grid import hindrance
from spine.hierarchy import Spine
from spine.noise import replacement_cost
from spine.top_down import Plan
from tasks.errors import Failed, Refused
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.reservation import Claim
from tasks.lifecycle.workers import Workers
from tasks.top_down.choices import ESTIMATORS, Estimator
from tasks.top_down.declared.public_tables import PUBLIC, Declared, PublicTables, declared_of
from tasks.top_down.estimate.estimators import estimate as estimate_run
from tasks.top_down.measure import Measured
from tasks.top_down.source import Descent, Source

ALL = "all"  # in place of a state
FOLDER = "declared"  # of OUT
ESTIMATOR = "prepared/estimator"
CHILDREN = 4096  # geounits that one piece estimates, about


class DeclarationSource(Source):
    """A source whose hierarchy and histogram are a declaration's."""

    has_areas = False

    @property
    def public(self) -> PublicTables:
        """Load what the declaration's public files hold."""
        return load_object(self / PUBLIC, PublicTables)

    @property
    def declared(self) -> Declared:
        """Load the declaration with its tables."""
        return declared_of(self)

    @property
    def name(self) -> Any:
        """Return the declaration's name, which is a product's in folders and in the noise's address."""
        return self.declared.declaration.form.name

    @property
    def estimator(self) -> Estimator:
        """Return what the histograms are estimated by: as of a run that says nothing, the program of 2020."""
        if not (self / ESTIMATOR).exists():
            return "topdown"
        return ESTIMATORS[ESTIMATORS.index(load_object(self / ESTIMATOR, str))]

    @property
    def folder(self) -> str:
        """Return the folder of a release."""
        return FOLDER

    @property
    def product_states(self) -> list[tuple[Any, str]]:
        """Return the declaration's name, and that its hierarchy is one."""
        return [(self.name, ALL)]

    @property
    def descents(self) -> tuple[Descent, ...]:
        """Return a stage for each level below the top."""
        levels = self.declared.plan.spine.levels
        return tuple(Descent(f"estimate {lower}", upper, lower, CHILDREN) for upper, lower in pairwise(levels))

    def spine(self, _product: str, _state: str) -> Spine:
        """Return the hierarchy."""
        return self.declared.hierarchy.spine

    def plan(self, _product: Any, _state: str) -> Plan:
        """Return the plan of the estimation."""
        return self.declared.plan


@dataclass(frozen=True)
class DeclaredRun(DeclarationSource, Measured):
    """A run of a declaration."""

    def offsets(self, _product: Any, _state: str) -> tuple[int, ...]:
        """Return that the hierarchy is all that is measured."""
        return (0,) * len(self.declared.plan.spine.levels)


def claim(run: DeclaredRun) -> Claim:
    """Return what a run asks to be charged. Raises Failed where the noise would cost another sum."""
    declared = run.declared
    spend = declared.spend
    if replacement_cost(declared.hierarchy.spine, declared.declaration.allocation) != spend.charged:
        raise Failed("reserve budget: the noise on the hierarchy does not cost what is charged")
    return Claim(run, EVERYWHERE, spend, run.public.digest(), run.validated)


def check_estimator(declared: Declared, estimator: Estimator) -> None:
    """Refuse least squares over the tree where a declaration has none."""
    if estimator == "gls" and (why := hindrance(declared.plan)):
        raise Refused(f"estimator gls: {why}; topdown takes any declaration")


def estimate(run: DeclaredRun, workers: Workers, estimator: Estimator = "topdown") -> None:
    """Estimate the histograms of all geounits, level by level. Raises Refused as `check_estimator` does."""
    check_estimator(run.declared, estimator)
    save_object(run / ESTIMATOR, estimator)
    estimate_run(run, workers)
