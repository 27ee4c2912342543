"""Measure: add exact noise to the exact answers of query groups, on demand and always with the same result.

The noise of a query group is the stream `tda/PRODUCT/LEVEL/QUERY`; its row is the number of the geounit in the whole
run, in spine order. A row is drawn under one law, that of its geounit's share. So estimation and the release of the
measurements draw the same numbers, and nothing stores them in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from spine.top_down import NoisyAnswers, TrueHistograms, exact_answers, query_group
from tasks.lifecycle.authorization import Authorization, read_drawing
from tasks.top_down.input.geography import offsets, plan_of
from tasks.top_down.run import TopDownRun, load_histograms
from tasks.top_down.run_plan import US, ProductName, law

if TYPE_CHECKING:
    from spine.top_down import Plan


NoiseOf: TypeAlias = Callable[[str, str, int], QueryNoise]  # of a level, query and share (a numerator)


class Drawing(NamedTuple):
    """The source of the noise: the run's secret, and what it was authorized with."""

    secret: RunSecret
    authorization: Authorization

    def noise(self, plan: Plan, product: ProductName, level: str, query: str, share: int) -> QueryNoise:
        """Return the noise of a query group in the geounits with this share (a numerator)."""
        alpha = plan.allocation.queries[level][query]
        return QueryNoise(
            law(plan.allocation, Fraction(share, plan.spine.denominator), alpha),
            self.secret,
            input_digest=self.authorization.input_digest,
            configuration_digest=self.authorization.configuration_digest,
            query=f"tda/{product}/{level}/{query}",
        )


@dataclass(frozen=True)
class Measuring:
    """The measurements of a state, or (US) of the nation and the states' parts. Can read exact counts.

    drawing: None for a truth, which may not draw and whose answers are exact.
    """

    run: TopDownRun
    product: ProductName
    state: str
    plan: Plan
    offsets: tuple[int, ...]
    drawing: Drawing | None

    def __call__(self, level: int, first: int, last: int) -> NoisyAnswers:
        """Draw the noisy answers of the geounits first ... last - 1 of a level; rows with the share 0 are void."""
        folder = self.run.counts_folder(self.product, self.state, self.plan.spine.levels[level])
        exact = load_histograms(folder, TrueHistograms, first, last)
        noise = None if self.drawing is None else partial(self.drawing.noise, self.plan, self.product)
        return noisy_answers(self.plan, exact, (level, first, last), noise, self.offsets[level])


def noisy_answers(
    plan: Plan, exact: TrueHistograms, of: tuple[int, int, int], noise: NoiseOf | None, offset: int = 0
) -> NoisyAnswers:
    """Return the noisy answers of geounits: of, level, first and last + 1; offset, what is before them in the run.

    A row is drawn by its number on the level: it has the same noise whichever range asks for it. Where its share is 0
    it is not measured, and its answer is 0. Without noise the answers are exact: of a truth.
    """
    level, first, last = of
    name, answers = plan.spine.levels[level], {}
    shares = plan.spine.shares[level][first:last]
    for query in plan.allocation.queries[name]:
        answers[query] = answer = exact_answers(exact, query_group(plan.product, query), first, last)
        for share in np.unique(shares).tolist():
            at = np.flatnonzero(shares == share)
            if not share:
                answer[at] = 0
            elif noise is not None:
                answer[at] += noise(name, query, share).draw(first + offset + at, answer.shape[1])
    return NoisyAnswers(first, last, answers)


@dataclass(frozen=True)
class Measured(TopDownRun):
    """A run as the source of its own measurements, which it draws under its secret."""

    def answers(self, product: ProductName, state: str) -> Measuring:
        """Return the noisy answers of a state or of the nation. Raises Failed where the run may not draw."""
        drawing = read_drawing(self)
        plan = plan_of(self, product, state)
        first = (0, 0) if state == US else offsets(self, product, state)
        return Measuring(self, product, state, plan, first, None if drawing is None else Drawing(*drawing))
