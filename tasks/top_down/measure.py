"""Measure: add exact noise to the exact answers of query groups, on demand and always with the same result.

The noise of a query group is the stream `tda/PRODUCT/LEVEL/QUERY`; its row is the number of the geounit in the whole
run, in spine order. A row is drawn under one law, that of its geounit's share. So estimation and the release of the
measurements draw the same numbers, and nothing stores them in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from spine.allocations import Allocation
from spine.noise import distinct_shares, replacement_cost
from spine.top_down import NoisyAnswers, TrueHistograms, exact_answers, query_group
from tasks.errors import Failed, Refused
from tasks.lifecycle.authorization import Drawing, read_drawing
from tasks.lifecycle.reservation import Claim
from tasks.lifecycle.workers import Workers
from tasks.top_down.input.geography import offsets, plan_of, spine_digest
from tasks.top_down.run_plan import US, ProductName, law, request_digest, undrawable
from tasks.top_down.source import TopDownRun, load_histograms
from tasks.top_down.spend import planned_spend

if TYPE_CHECKING:
    from spine.top_down import Plan


@dataclass(frozen=True)
class Measuring:
    """The measurements of a state, of the nation and the states' parts (US), or of a declaration's hierarchy.

    product: its name in the noise's address. exact: returns the exact histograms of the geounits first ... last - 1 of
    a level: confidential. offsets: geounits that are before the first in the run, by level. drawing: None for a truth,
    which may not draw and whose answers are exact.
    """

    plan: Plan
    product: str
    exact: Callable[[int, int, int], TrueHistograms]
    offsets: tuple[int, ...]
    drawing: Drawing | None

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Draw the noisy answers of the geounits first ... last - 1 of a level.

        A row is drawn by its number on the level: it has the same noise whichever range asks for it. Where its share is
        0 it is not measured, and its answer is 0.
        """
        plan, exact, answers = self.plan, self.exact(level, first, last), {}
        name, shares = plan.spine.levels[level], plan.spine.shares[level][first:last]
        for query, alpha in plan.allocation.queries[name].items():
            answers[query] = answer = exact_answers(exact, query_group(plan.product, query), first, last)
            for share in np.unique(shares).tolist():
                at = np.flatnonzero(shares == share)
                if not share:
                    answer[at] = 0
                elif self.drawing is not None:
                    of_share = law(plan.allocation, Fraction(share, plan.spine.denominator), alpha)
                    noise = self.drawing.noise(of_share, f"tda/{self.product}/{name}/{query}")
                    answer[at] += noise.draw(first + self.offsets[level] + at, answer.shape[1])
        return NoisyAnswers(first, last, answers)


@dataclass(frozen=True)
class Measured(TopDownRun):
    """A run as the source of its own measurements, which it draws under its secret."""

    def plan(self, product: ProductName, state: str) -> Plan:
        """Return the plan of estimating a state, or (US) the states' parts below the nation."""
        return plan_of(self, product, state)

    def offsets(self, product: ProductName, state: str) -> tuple[int, ...]:
        """Return the number of a state's first geounit among those of the run, by level."""
        return (0, 0) if state == US else offsets(self, product, state)

    def answers(self, product: ProductName, state: str) -> Measuring:
        """Return the noisy answers of a state or of the nation. Raises Failed where the run may not draw."""
        drawing, plan = read_drawing(self), self.plan(product, state)

        def exact(level: int, first: int, last: int) -> TrueHistograms:
            return load_histograms(
                self.counts_folder(product, state, plan.spine.levels[level]), TrueHistograms, first, last
            )

        return Measuring(plan, product, exact, self.offsets(product, state), drawing)


def configuration_digest(run: TopDownRun) -> str:
    """Return the digest that noise and reservation are bound to: of the request and of its spines."""
    requested = request_digest(run.design, run.validated.digests)
    return sha256(f"{requested}\nspine {spine_digest(run)}\n".encode()).hexdigest()


def claim(run: TopDownRun, workers: Workers) -> Claim:
    """Return what a run asks to be charged.

    Raises Refused where a law cannot be drawn, Failed where the noise of a spine would cost another sum.
    """
    design, validated = run.design, run.validated
    workers.map("reserve budget", run, check_cost, run.product_states)
    if validated.nation:
        for product in design.products:
            check_laws(design.allocations[product], {US: [design.allocations[product].levels[US]]})
    spend = planned_spend(design, nation=validated.nation)
    return Claim(run, validated.states, spend, configuration_digest(run), validated)


def check_cost(run: TopDownRun, product: ProductName, state: str) -> None:
    """Compare the cost of the noise on a state's spine, from its laws, with the charge; check that it can be drawn.

    Raises Refused where a law is too wide or too narrow for the sampler, which would stop the run after its charge;
    Failed where the costs differ.
    """
    spine, allocation = run.spine(product, state), run.design.allocations[product]
    if replacement_cost(spine, allocation) != run.design.cost(product, nation=False):
        raise Failed(f"reserve budget: the noise on the spine of state {state} does not cost what is charged")
    check_laws(allocation, distinct_shares(spine))


def check_laws(allocation: Allocation, shares: Mapping[str, list[Fraction]]) -> None:
    """Refuse laws that cannot be drawn; shares: by level."""
    for level, query, error in undrawable(allocation, shares):
        raise Refused(f"the noise of {query} in level {level} cannot be drawn: {error}")
