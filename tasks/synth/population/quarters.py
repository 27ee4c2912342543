"""Drawn living quarters of a state's blocks: group quarters, occupied housing units, and vacant ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.synth.draws import apportion
from tasks.synth.population.model import IntArray
from tasks.synth.population.sizes import MEAN, MOST_MEAN

TYPES = 8  # types of living quarters: housing units, and seven major types of group quarters
PERSONS = 1_240_000  # the population for the numbers of group quarters below, of whom 2.5% live there
MOST_OF_STATE = 1 / 300  # own: the largest share of a small state's persons in one facility
VACANT = 13_681_156 / 140_498_736  # share of housing units, 2020
ONLY_VACANT, IN_EMPTY_BLOCKS = 0.22, 0.06  # own: shares of blocks without persons, and of vacant units
MEANS = (0.82, 1.18)  # own: range of a block's mean household size, relative to the nation's


@dataclass(frozen=True)
class Facilities:
    """Group quarters of one type: blocks that have them, facilities in each block, and residents of a facility.

    among: the number of most populous blocks to draw from; 0 for all that can hold them.
    """

    kind: int
    blocks: int
    per_block: int
    min_residents: int
    max_residents: int
    among: int = 0


FACILITIES = (  # own, after the published residents of Rhode Island
    Facilities(5, 60, 3, 60, 260, among=140),
    Facilities(1, 5, 1, 300, 500),
    Facilities(6, 4, 1, 60, 200),
    Facilities(3, 95, 1, 40, 130),
    Facilities(4, 8, 1, 20, 80),
    Facilities(2, 40, 1, 4, 14),
    Facilities(7, 330, 1, 4, 18),
)


@dataclass(frozen=True)
class Quarters:
    """Living quarters and residents of a state's blocks, as in `Tracts`."""

    facilities: IntArray
    residents: IntArray
    occupied: IntArray


def draw_populations(tract: IntArray, random: np.random.Generator) -> IntArray:
    """Return the persons of blocks in tracts of about 3,820, in 35 to 90% of a tract's blocks; tract: by block."""
    number = int(tract.max()) + 1
    inhabited = random.random(len(tract)) < random.uniform(0.35, 0.90, number)[tract]
    size = np.where(inhabited, random.lognormal(0, 1.1, len(tract)), 0)
    total = np.maximum(random.normal(3820, 900, number), 200)
    sums = np.maximum(np.bincount(tract, size, number), 1e-9)
    people: IntArray = np.where(inhabited, np.ceil(size * (total / sums)[tract]), 0).astype(np.int64)
    return people


def draw_quarters(population: IntArray, random: np.random.Generator) -> Quarters:
    """Place group quarters inside the blocks' populations, then housing units for the rest, and vacant ones."""
    blocks = len(population)
    facilities, residents = np.zeros((blocks, TYPES), np.int64), np.zeros((blocks, TYPES), np.int64)
    left, scale = population.copy(), int(population.sum()) / PERSONS
    bound = max(1, round(int(population.sum()) * MOST_OF_STATE))
    for facility in FACILITIES:
        capacity = (left * random.uniform(0.4, 0.97, blocks)).astype(np.int64)
        low, high = min(facility.min_residents, bound), min(facility.max_residents, bound)
        fits = np.flatnonzero((capacity >= max(low, facility.per_block)) & (facilities[:, facility.kind] == 0))
        if facility.among:
            fits = fits[np.argsort(-left[fits], kind="stable")][: max(1, round(facility.among * scale))]
        chosen = random.choice(fits, min(len(fits), max(1, round(facility.blocks * scale))), replace=False)
        logarithms = random.uniform(np.log(low), np.log(high), (len(chosen), facility.per_block))
        sizes = np.exp(logarithms).sum(axis=1).astype(np.int64)
        facilities[chosen, facility.kind] = facility.per_block
        residents[chosen, facility.kind] = np.maximum(facility.per_block, np.minimum(sizes, capacity[chosen]))
        left -= residents[:, facility.kind]
    occupied = _occupied(left, random)
    facilities[:, 0], residents[:, 0] = occupied + _vacant(occupied, population, random), left
    return Quarters(facilities, residents, occupied)


def repair_quarters(
    population: IntArray, residents: IntArray, units: IntArray, occupied: IntArray
) -> tuple[Quarters, dict[str, int]]:
    """Return published living quarters without their contradictions, and the number of blocks that each rule repaired.

    Blocks are published with noise, so they contradict themselves. Persons are never changed. residents: (b, 7), of
    group quarters by type; a type with residents becomes one facility.
    """
    upto = np.minimum(residents.cumsum(axis=1), population[:, None])
    kept = np.diff(upto, axis=1, prepend=0)
    left = population - kept.sum(axis=1)
    lived_in = np.clip(occupied, -(-left // MOST_MEAN), left)
    houses = np.maximum(units, lived_in)
    repaired = {
        "more residents of quarters than persons": (kept != residents).any(axis=1),
        "more occupied units than persons in them": lived_in < occupied,
        "too few occupied units for the persons in them": lived_in > occupied,
        "fewer units than occupied ones": houses > units,
    }
    facilities = np.column_stack([houses, (kept > 0).astype(np.int64)])
    quarters = Quarters(facilities, np.column_stack([left, kept]), lived_in)
    return quarters, {rule: int(blocks.sum()) for rule, blocks in repaired.items()}


def _occupied(persons: IntArray, random: np.random.Generator) -> IntArray:
    """Return households for the persons of each block, with MEAN persons on average if the state's blocks allow it."""
    of_block, scale = MEAN * random.uniform(*MEANS, len(persons)), 1.0
    spread = random.random(len(persons))
    occupied = np.zeros(len(persons), np.int64)
    for _ in range(6):
        wanted = np.floor(persons / (of_block * scale) + spread).astype(np.int64)
        occupied = np.clip(wanted, -(-persons // MOST_MEAN), persons)
        occupied[(persons > 0) & (occupied == 0)] = 1
        scale *= MEAN * occupied.sum() / max(int(persons.sum()), 1) if persons.any() else 1.0
    return occupied


def _vacant(occupied: IntArray, population: IntArray, random: np.random.Generator) -> IntArray:
    """Return vacant units, VACANT of the state's units, a few of them in blocks where nobody lives."""
    total = round(occupied.sum() * VACANT / (1 - VACANT))
    empty = (population == 0) & (random.random(len(occupied)) < ONLY_VACANT)
    alone = empty * (1 + random.poisson(0.6, len(occupied)))
    weights = occupied * random.lognormal(0.0, 0.5, len(occupied))
    share = min(IN_EMPTY_BLOCKS, alone.sum() / max(total, 1)) if weights.any() else 1.0
    weights = (1 - share) * weights / max(weights.sum(), 1.0) + share * alone / max(int(alone.sum()), 1)
    return apportion(weights, total) if weights.any() else np.zeros(len(occupied), np.int64)
