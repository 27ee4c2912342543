"""Reserve the budget of a declaration, and estimate the histograms of its geounits from noisy answers.

The noise of a query group is the stream `tda/NAME/LEVEL/QUERY`, NAME the declaration's; its row is the number of the
geounit on the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from privacy.accounting.states import EVERYWHERE
from spine.hierarchy import Spine
from spine.noise import replacement_cost
from spine.top_down import Plan
from tasks.inputs.marks import read_mark
from tasks.lifecycle.authorization import read_drawing
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.files import load_object
from tasks.lifecycle.reservation import Charging, authorize, precheck
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.top_down.declared.public_tables import PUBLIC, Declared, PublicTables, declared_of
from tasks.top_down.declared.tabulate import ALL, TABULATED, Tabulated, open_data
from tasks.top_down.estimate.estimators import estimate_run
from tasks.top_down.estimate.topdown import estimate_by_topdown
from tasks.top_down.measure import Drawing, Measuring
from tasks.top_down.source import Descent, Source, TopDownRun, Validated
from tasks.top_down.spend import declared_spend

FOLDER = "declared"  # of OUT
CHILDREN = 4096  # geounits that one piece estimates, about
NOT_PAID = "reserve budget: the noise on the hierarchy does not cost what is charged"


class OfDeclaration(Source):
    """A source whose hierarchy and histogram are a declaration's: one hierarchy, in place of states."""

    @property
    def declared(self) -> Declared:
        """Load the declaration with its tables."""
        return declared_of(self)

    @property
    def name(self) -> Any:
        """Return the declaration's name, which is a product's in folders and in the noise's address."""
        return self.declared.declaration.form.name

    @property
    def folder(self) -> str:
        """Return the folder of a release."""
        return FOLDER

    @property
    def product_states(self) -> list[tuple[Any, str]]:
        """Return the declaration's name, and that its hierarchy is one."""
        return [(self.name, ALL)]

    @property
    def validated(self) -> Validated:
        """Return that there is no state, and nothing above the hierarchy."""
        return Validated("", (), None, (ALL,), False, {})

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
class DeclaredRun(OfDeclaration, TopDownRun):
    """A run of a declaration."""

    def answers(self, product: Any, state: str) -> Measuring:
        """Return the noisy answers. Raises Failed where the run may not draw."""
        drawing, plan = read_drawing(self), self.declared.plan
        offsets = (0,) * len(plan.spine.levels)
        return Measuring(self, product, state, plan, offsets, None if drawing is None else Drawing(*drawing))


def precheck_budget(run: RunDirectory, declared: Declared, data: str, charging: Charging) -> None:
    """Refuse, before a record is read, data without the declared columns and an account that cannot be charged.

    Charges nothing. Marked data needs no account. A run that has tabulated is past this.
    """
    if (run / TABULATED).exists():
        return
    _, findings = open_data(data, declared)
    if findings:
        raise Refused(f"{findings[0].file}: {findings[0].rule}")
    if read_mark(data.rpartition("/")[0] or ".") is None:
        precheck(run, charging, EVERYWHERE, declared_spend(declared.declaration))


def reserve_budget(run: RunDirectory, charging: Charging) -> None:
    """Reserve the declaration's budget and make the run's secret. Raises Refused, Failed as `authorize` does."""
    declared = declared_of(run)
    spend = declared_spend(declared.declaration)
    if replacement_cost(declared.hierarchy.spine, declared.declaration.allocation) != spend.charged:
        raise Failed(NOT_PAID)
    digest = load_object(run / PUBLIC, PublicTables).digest()
    authorize(run, charging, EVERYWHERE, spend, digest, load_object(run / TABULATED, Tabulated))


def estimate(run: RunDirectory, workers: Workers) -> None:
    """Estimate the histograms of all geounits, level by level; a truth takes the exact ones."""
    estimate_run(DeclaredRun(run.path), workers, estimate_by_topdown)
