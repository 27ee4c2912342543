"""Predicted errors of the redistricting data: the stand-in and spine of a run on marked data, and their predictions.

The run is validated and counted like any other, but never charged or measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from spine.allocations import Allocation
from spine.build import measured_spine
from spine.forecast.counts import group_counts
from spine.forecast.forecast import PersonsForecast, StandIn, UnitsForecast
from spine.forecast.precision import Weights, weights_of
from spine.forecast.search import Aims, Row, best_shares
from spine.forecast.tree import Errors
from spine.geography import FloatArray
from spine.hierarchy import Spine
from spine.production import allocation_for
from spine.redistricting import PERSONS
from spine.top_down.queries import TOTAL
from spine.variance import Root, cell_variance, downward, marginal_parts, upward
from tasks.top_down.accuracy.errors import LEAST_PERSONS, POINTS, SIZES, refuse_unmarked, size_words
from tasks.top_down.areas import areas
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.run_plan import Design
from tasks.top_down.source import Branch

OWN_LEVELS = {"Block_Group": "obg", "Block": "block"}  # levels of the spine whose geounits are in no family of areas
BASE = 16  # base of a number whose digits are the levels' shares
MEAN_OF_NORMAL = (2 / np.pi) ** 0.5  # mean absolute value over standard deviation
EXACT = (TOTAL, "votingage*cenrace")  # queries with exact standard errors

# Predicted over measured mean absolute errors, by level and quantity: means over six random allocations on the blocks
# of Rhode Island (benchmarks/forecast.py). Five counties and a few AIAN areas show too little.
QUANTITIES = ("total", "race", "voting age by race")
MEASURED_RATIOS = {
    "tract": (1.03, 1.21, 1.25),
    "cbg": (1.04, 1.04, 1.07),
    "obg": (0.97, 1.01, 1.06),
    "block": (1.06, 1.13, 1.15),
    "place": (1.07, 1.18, 1.21),
    "mcd": (1.10, 1.35, 1.33),
}
TRIED_STATES, TRIED_BUDGETS = ("44",), (0.5, 2.0)  # of these trials; budgets over production's, which they had
RATIOS: Mapping[Row, float] = {
    (level, quantity): ratio
    for level, ratios in MEASURED_RATIOS.items()
    for quantity, ratio in zip(QUANTITIES, ratios, strict=True)
}


@dataclass(frozen=True)
class TargetForecast:
    """How often areas of 500 and more persons are expected to meet the redistricting target."""

    areas: int
    share: float


class RunForecast:
    """Predict the errors of one product of a run, by level or kind of area, over all its states.

    with_below: predict generalized least squares instead of the program's estimates. Raises Refused for unmarked data,
    whose exact counts the errors, and shares chosen by them, would reveal.
    """

    def __init__(self, run: TopDownRun, product: str, *, with_below: bool) -> None:
        refuse_unmarked(run)
        make = PersonsForecast if product == "persons" else UnitsForecast
        self.product, self._with_below, design = product, with_below, run.design
        self._states = [make(stand_in(run, branch)) for branch in run.branches_of(product)]
        self._codes, self._design = run.validated.states, design
        self.calibrated = design.definition == "zcdp" and design.jurisdiction == "us"
        self._levels = _levels(design, product, self._states[0].stand_in.spine)
        self._nation = design.with_nation(run.validated.states)
        self.quantities = np.array(self._states[0].quantities)

    def is_calibrated(self, level: str) -> bool:
        """Return whether the errors of a level's counts were compared with those of real runs."""
        return self.calibrated and level in MEASURED_RATIOS

    def outside_trials(self, shares: Allocation) -> list[str]:
        """Return in words how a prediction for these shares differs from the trials of the model."""
        budget = float(shares.budget / production(self._design, self.product).budget)
        found = ["another geography"] * (self._codes != TRIED_STATES)
        if not TRIED_BUDGETS[0] <= budget <= TRIED_BUDGETS[1]:
            found.append(f"a budget of {budget:.2g} times production's")
        return found

    def weights(self, allocation: Allocation) -> Weights:
        """Return each query's part of the budget on the levels of the run's spine."""
        return weights_of(allocation.on(self._levels))

    @property
    def predicted_levels(self) -> tuple[str, ...]:
        """The levels of the spine whose budgets affect the errors."""
        return self._states[0].stand_in.spine.levels

    @property
    def unpredicted_levels(self) -> tuple[str, ...]:
        """The measured levels whose budgets affect no predicted error: the nation, in a run that measures it."""
        return tuple(level for level in self._levels if level not in self.predicted_levels and self._nation)

    def fixed_levels(self, kept: Sequence[str]) -> list[str]:
        """Return the levels with a fixed share in a search: `kept`, and the root, whose errors are not predicted."""
        return [level for level in self._levels if level in kept or level not in self.predicted_levels]

    def best(self, allocation: Allocation, aims: Aims, kept: Sequence[str]) -> Weights:
        """Return the weights with the smallest predicted errors at the same budget."""
        return best_shares(self.mean_errors, self.weights(allocation), aims, self.fixed_levels(kept))

    def errors(self, weights: Weights) -> dict[str, Errors]:
        """Return the errors of all areas by level, the states' concatenated."""
        found = [state.errors(weights, with_below=self._with_below) for state in self._states]
        levels = dict.fromkeys(level for errors in found for level in errors if level in OWN_LEVELS or level.islower())
        return {
            OWN_LEVELS.get(level, level): Errors(
                np.concatenate([errors[level].variance for errors in found if level in errors]),
                np.concatenate([errors[level].bias for errors in found if level in errors]),
            )
            for level in levels
        }

    def mean_errors(self, weights: Weights) -> dict[Row, float]:
        """Return the mean absolute error of each level's counts, by quantity."""
        return dict(self._means(self.errors(weights)))

    def mean_deviations(self, weights: Weights) -> dict[Row, float]:
        """Return the mean standard deviation of each level's errors, by quantity."""
        deviations = {
            level: Errors(own.variance, np.zeros_like(own.bias)) for level, own in self.errors(weights).items()
        }
        return {row: mean / MEAN_OF_NORMAL for row, mean in self._means(deviations)}

    def _means(self, errors: Mapping[str, Errors]) -> Iterator[tuple[Row, float]]:
        for level, own in errors.items():
            mean = own.mean_absolute.mean(axis=0)
            for quantity in dict.fromkeys(self.quantities.tolist()):
                if quantity != "target":
                    ratio = RATIOS.get((level, quantity), 1.0) if self.calibrated else 1.0
                    yield (level, quantity), float(mean[self.quantities == quantity].mean()) / ratio

    def block_bias(self, weights: Weights) -> dict[str, float]:
        """Return the mean bias of the totals of blocks, by class of the stand-in's size."""
        bias = self.errors(weights)["block"].bias[:, 0]
        size = np.searchsorted(SIZES, np.concatenate([state.sizes[-1] for state in self._states]), side="right") - 1
        return {words: float(bias[size == at].mean()) for at, words in size_words().items() if (size == at).any()}

    def targets(self, weights: Weights) -> dict[str, TargetForecast]:
        """Return, by level, how often an area's largest group is expected to have its share within 5 points."""
        found = {}
        for level, errors in self.errors(weights).items():
            counts = np.concatenate(list(self._group_counts(level)))
            persons = counts.sum(axis=1)
            chosen = np.flatnonzero(persons >= LEAST_PERSONS)
            if not len(chosen):
                continue
            column = np.flatnonzero(self.quantities == "target")[counts[chosen].argmax(axis=1)]
            own = Errors(errors.variance[chosen, column], errors.bias[chosen, column])
            found[level] = TargetForecast(len(chosen), float(own.within(POINTS * persons[chosen]).mean()))
        return found

    def _group_counts(self, level: str) -> Iterator[FloatArray]:
        """Yield the persons of each group of the target in the areas of a level, state by state."""
        for state in self._states:
            own = state.stand_in.spine
            if level in OWN_LEVELS.values():
                at = own.levels.index(next(name for name, known in OWN_LEVELS.items() if known == level))
                yield group_counts(state.levels[at]).astype(float)
                continue
            of_blocks = group_counts(state.levels[-1])
            for family in state.stand_in.families:
                if family.name == level:
                    yield family._replace(of_block=family.of_block[own.order]).sums(of_blocks).astype(float)


def stand_in(run: TopDownRun, branch: Branch) -> StandIn:
    """Return the stand-in and spine of a state, from the counts of a run on marked data."""
    blocks, design, spine = run.state(branch.name), run.design, run.spine(branch)
    histograms = run.exact(branch, spine.levels[-1])
    families = [*areas(blocks.geography, design.settings[branch.product])]
    state_of_part = np.zeros(len(spine.starts[0]), np.int64)
    pattern = _pattern(run, branch)
    return StandIn(spine, pattern, design.definition, histograms, blocks.quarters[spine.order], state_of_part, families)


def production(design: Design, product: str) -> Allocation:
    """Return production's shares at its budget; under pure DP, which it did not use, at the design's."""
    given = None if design.definition == "zcdp" else design.allocations[product].budget
    return replace(allocation_for(design.settings[product], given), source="production")


def _levels(design: Design, product: str, spine: Spine) -> tuple[str, ...]:
    """Return the levels of the whole spine; a state's forest has some of them."""
    root = () if design.jurisdiction == "pr" else (design.settings[product].levels[0],)
    return (*root, *spine.levels)


def _pattern(run: TopDownRun, branch: Branch) -> list[FloatArray]:
    """Return each geounit's part of each level's budget: (geounits, levels), by level.

    Under zCDP a bypass depends on fan-outs only, so one number carries each level's share as a digit through it. Under
    pure DP it depends on the shares; a geounit then has a multiple of its own level's.
    """
    design, spine, settings = run.design, run.spine(branch), run.design.settings[branch.product]
    allocation = design.allocations[branch.product].on(_levels(design, branch.product, spine))
    if design.definition != "zcdp":
        shares = allocation.levels
        parts = zip(spine.shares, spine.levels, strict=True)
        own = [of_level / spine.denominator / float(shares[name]) for of_level, name in parts]
        return [part[:, None] * np.eye(len(own))[at] for at, part in enumerate(own)]
    levels = [*allocation.levels]
    whole = sum(BASE**at for at in range(len(levels)))
    powers = {level: Fraction(BASE**at, whole) for at, level in enumerate(levels)}
    geography, marked = run.state(branch.name).geography, replace(allocation, levels=powers)
    numbered = measured_spine(design.kind, geography, settings, marked, root=design.jurisdiction == "pr")
    powers_of_levels = BASE ** np.array([levels.index(level) for level in numbered.levels])
    unit = numbered.denominator // whole
    return [(shares[:, None] // unit // powers_of_levels % BASE).astype(float) for shares in numbered.shares]


def exact_errors(run: TopDownRun, allocation: Allocation) -> dict[Row, float]:
    """Return the mean standard errors of persons by level of the spine and query, under least squares over the tree.

    `spine.variance` assumes that nothing is declared and no cell is known to be 0.
    """
    design = run.design
    settings, power = design.settings["persons"], 1 if design.definition == "zcdp" else 2
    sums: dict[Row, list[FloatArray]] = {}
    for state in run.validated.states:
        geography = run.state(state).geography
        spine = measured_spine(design.kind, geography, settings, allocation, root=design.jurisdiction == "pr")
        asked = allocation.on(_levels(design, "persons", spine))
        for query in EXACT:
            variance = [np.zeros(1)] * len(spine.levels)
            for part in marginal_parts(query, PERSONS, asked):
                up = upward(spine, part, power)
                below = np.linalg.inv(up.variance[0].sum(axis=0))
                of_levels = downward(spine, up, Root(np.zeros_like(below), below, len(spine.starts[0])))
                of_levels = (*of_levels[:-1], of_levels[-1][up.row_of_block])
                variance = [sum_ + cell_variance(part, own) for sum_, own in zip(variance, of_levels, strict=True)]
            for level, own in zip(spine.levels, variance, strict=True):
                sums.setdefault((level, query), []).append(np.sqrt(own))
    return {row: float(np.concatenate(found).mean()) for row, found in sums.items()}
