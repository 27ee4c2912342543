"""Reserve the budget of a declaration, and estimate the histograms of its geounits from noisy answers.

The noise of a query group is the stream `tda/NAME/LEVEL/QUERY`, NAME the declaration's; its row is the number of the
geounit on the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import spine.top_down as engine  # its compiled functions are imported at first use: they import numba
from privacy.accounting.states import EVERYWHERE
from spine.hierarchy import Spine
from spine.noise import replacement_cost
from spine.top_down import Estimates, TrueHistograms
from tasks.inputs.marks import read_mark
from tasks.lifecycle.authorization import is_truth, read_drawing
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.files import load_object, save_object, unless_done
from tasks.lifecycle.reservation import Charging, authorize, precheck
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.top_down.declared.public_tables import PUBLIC, Declared, PublicTables, declared_of
from tasks.top_down.declared.spend import planned_spend
from tasks.top_down.declared.tabulate import ALL, TABULATED, Tabulated, open_data
from tasks.top_down.estimate.estimates import FIRST, SOLVES, load_estimates
from tasks.top_down.measure.measuring import Drawing, Measuring
from tasks.top_down.run import TopDownRun, load_histograms, save_histograms

CHILDREN = 4096  # geounits that one piece estimates, about
NOT_PAID = "reserve budget: the noise on the hierarchy does not cost what is charged"


@dataclass(frozen=True)
class DeclaredRun(TopDownRun):
    """A run of a declaration: its hierarchy is one, in place of a state."""

    @property
    def declared(self) -> Declared:
        """Load the declaration with its tables."""
        return declared_of(self)

    @property
    def name(self) -> Any:
        """Return the declaration's name, which is a product's in folders and in the noise's address."""
        return self.declared.declaration.form.name

    def spine(self, _product: str, _state: str) -> Spine:
        """Return the hierarchy."""
        return self.declared.hierarchy.spine

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
        precheck(run, charging, EVERYWHERE, planned_spend(declared.declaration))


def reserve_budget(run: RunDirectory, charging: Charging) -> None:
    """Reserve the declaration's budget and make the run's secret. Raises Refused, Failed as `authorize` does."""
    declared = declared_of(run)
    spend = planned_spend(declared.declaration)
    if replacement_cost(declared.hierarchy.spine, declared.declaration.allocation) != spend.charged:
        raise Failed(NOT_PAID)
    digest = load_object(run / PUBLIC, PublicTables).digest()
    authorize(run, charging, EVERYWHERE, spend, digest, load_object(run / TABULATED, Tabulated))


def estimate(run: RunDirectory, workers: Workers) -> None:
    """Estimate the histograms of all geounits, level by level; a truth takes the exact ones."""
    plan = declared_of(run).plan
    levels = plan.spine.levels
    if is_truth(run):
        workers.map("estimate", run, take_exact, [(level,) for level in levels])
        return
    workers.map(f"estimate {levels[0]}", run, estimate_top, [()])
    for level, name in enumerate(levels[1:]):
        pieces, first = [], 0
        for _, last in plan.batches(level, 0, len(plan.spine.starts[level])):
            if plan.first_child[level][last] - plan.first_child[level][first] >= CHILDREN:
                pieces.append((level, first, last))
                first = last
        if first < len(plan.spine.starts[level]):
            pieces.append((level, first, len(plan.spine.starts[level])))
        workers.map(f"estimate {name}", run, estimate_below, pieces)


def take_exact(run: RunDirectory, level: str) -> None:
    """Save exact histograms where estimates go. Raises Failed where the run may draw noise: only a truth shows them."""
    if read_drawing(run) is not None:
        raise Failed("estimate: only a truth takes exact counts")
    own = DeclaredRun(run.path)
    exact = load_histograms(own.counts_folder(own.name, ALL, level), TrueHistograms)
    estimates = Estimates(exact.level, exact.first, exact.starts, exact.cell, exact.count)
    save_histograms(own.estimates_folder(own.name, ALL, level) / FIRST, estimates)


def estimate_top(run: RunDirectory) -> None:
    """Estimate the geounits of the top level."""
    own = DeclaredRun(run.path)
    _save(own, 0, 0, lambda plan, answers: engine.estimate_roots(plan, answers))


def estimate_below(run: RunDirectory, level: int, first: int, last: int) -> None:
    """Estimate the children of the geounits first ... last - 1 of a level."""
    own = DeclaredRun(run.path)
    parents = load_estimates(own, own.name, ALL, own.declared.plan.spine.levels[level], first, last)
    _save(own, level + 1, first, lambda plan, answers: engine.estimate_children(plan, parents, answers))


def _save(own: DeclaredRun, level: int, piece: int, make: Any) -> None:
    """Save a piece's estimates, and last of all how its parents were solved."""
    name = own.declared.plan.spine.levels[level]

    def save() -> None:
        measuring = own.answers(own.name, ALL)
        estimates, solves = make(measuring.plan, engine.OwnAnswers(measuring.plan, measuring))
        save_histograms(own.estimates_folder(own.name, ALL, name) / f"{estimates.first:07d}", estimates)
        save_object(done, solves)

    done = own.estimates_folder(own.name, ALL, SOLVES) / f"{name}-{piece:07d}"
    unless_done(done, save)
