"""Ethnicity and race: published cells of a block, or drawn ones, shared within households.

Groups cluster in space. Every person has a point u on a circle on which related origins are adjacent. For most persons
u depends on where they live, so members of rare groups live near one another. Each way of drawing u sweeps the circle a
whole number of times over the country, so its marginal law is uniform: the shares of all groups in the whole country
are those of `Origins`, whatever the clustering. Members of a household have its householder's cell, except in mixed
households: there each has a point, or one of the block's cells, like any other person.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.synth.draws import Draws, FloatArray, Purpose, fraction
from tasks.synth.population.codes import SETS, Origins
from tasks.synth.population.model import Households, IntArray, Tracts

SCATTERED = 0.30  # share of persons whose origin is independent of where they live
ONE_HOME = 0.25  # share that lives near the one home of their group; the others live near one of its settlements
HOME_WIDTH = 0.03  # the width of a home, as a part of the circle
SETTLEMENT_WIDTH = 0.01
PERSONS_PER_SETTLEMENT = 2_500_000
FEWEST_SETTLEMENTS = 3
NEARBY = 0.2  # own: the distance of origins within a household, as a part of the cell
GOLDEN, GOLDEN_KINDS = 5**0.5 / 2 - 0.5, 2**0.5 - 1  # multiples of both, modulo 1, are spread evenly, and independent
# Own: share of mixed households. With it, 85% of households with several persons have one race and 90% one ethnicity.
# In published blocks more are mixed, because they lack persons who are alike.
MIXED, MIXED_PUBLISHED = 0.25, 0.13
SAME_CELL, SAME_RACE, ANY = range(3)  # what a member shares with the householder, as far as possible


def draw_races(
    tracts: Tracts, homes: Households, origins: Origins, draws: Draws
) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return each person's cell, 64 * Hispanic + set of races, and point in [0, 1) of the origins in that cell."""
    mixed = draws.uniform(Purpose.MIXED, homes.unit_tract) < (MIXED if tracts.cells is None else MIXED_PUBLISHED)
    follows = ~mixed[homes.unit] & (homes.head_of != np.arange(len(homes.unit)))
    point = _circle(tracts, homes, ~follows, draws)
    if tracts.cells is None:
        drawn, point = origins.cells.split(point)
        cell = drawn.astype(np.uint8)[np.where(follows, homes.head_of, np.arange(len(drawn)))]
    else:
        ends = np.searchsorted(homes.block[homes.unit], np.arange(len(tracts.tract) + 1))
        bodies, cell = tracts.cells[:, 1].astype(np.uint8), np.empty(len(follows), np.uint8)
        chosen = draws.uniform(Purpose.BODY, homes.tract)
        _share_out(ends, homes.head_of, homes.minor, bodies, follows, chosen, cell)
        follows &= cell == cell[homes.head_of]
    near = draws.uniform(Purpose.NEIGHBOUR, homes.tract) * NEARBY
    return cell, np.where(follows, fraction(point[homes.head_of] + near), point)


def _circle(tracts: Tracts, homes: Households, leads: NDArray[np.bool_], draws: Draws) -> FloatArray:
    """Return the point u in [0, 1) of the persons, in their order in the country.

    The points of a tract's leaders are spread evenly from a drawn start, so that counts vary less.
    """
    country = tracts.country
    position = (np.arange(len(homes.unit)) + tracts.before) / country
    kind, away = (draws.uniform(purpose, homes.tract) for purpose in (Purpose.SETTLEMENT, Purpose.ORIGIN))
    start = np.searchsorted(homes.tract, np.arange(len(tracts.codes)))[homes.tract]  # the first in each tract
    number = leads.cumsum() - leads
    number -= number[start]
    kind = np.where(leads, fraction(kind[start] + number * GOLDEN_KINDS), kind)
    away = np.where(leads, fraction(away[start] + number * GOLDEN), away)
    settlements = max(FEWEST_SETTLEMENTS, round(country / PERSONS_PER_SETTLEMENT))
    sweeps = np.where(kind < SCATTERED + ONE_HOME, 1, settlements)
    width = np.where(kind < SCATTERED, 1.0, np.where(kind < SCATTERED + ONE_HOME, HOME_WIDTH, SETTLEMENT_WIDTH))
    return fraction(position * sweeps + away * width)


@compiled
def _share_out(
    ends: IntArray,
    head: IntArray,
    minor: NDArray[np.bool_],
    bodies: NDArray[np.uint8],
    follows: NDArray[np.bool_],
    draws: FloatArray,
    cell: NDArray[np.uint8],
) -> None:
    """Fill the cell of each person from the bodies of the block, each used once.

    First, households whose members follow the householder get one cell with enough bodies of both ages, if there is
    one; the others share the rest. ends: first row of each block's persons, and the end; bodies, 128 * adult + cell,
    have the same.
    """
    number = np.zeros(256, np.int64)  # remaining bodies
    kinds = np.empty(256, np.int64)  # kinds of bodies in the block
    for block in range(len(ends) - 1):
        start, end, several = ends[block], ends[block + 1], 0
        for row in range(start, end):
            if number[bodies[row]] == 0:
                kinds[several] = bodies[row]
                several += 1
            number[bodies[row]] += 1
        for turn in range(2):
            row = start
            while row < end:
                leader, first, minors, together = head[row], row, 0, False
                while row < end and head[row] == leader:
                    minors += minor[row]
                    together |= follows[row]
                    row += 1
                if together == (turn == 1):
                    continue
                wanted, rule = -1, ANY
                if together:
                    need = (minors, row - first - minors)
                    wanted = _find_cell(number, kinds[:several], need, minor[leader], draws[leader])
                    rule = ANY if wanted < 0 else SAME_CELL
                cell[leader] = _take(number, kinds[:several], minor[leader], rule, wanted, draws[leader])
                for member in range(first, row):
                    if member != leader:
                        rule = SAME_CELL if together else ANY
                        cell[member] = _take(number, kinds[:several], minor[member], rule, cell[leader], draws[member])


@compiled
def _find_cell(number: IntArray, kinds: IntArray, need: tuple[int, int], minor: bool, draw: float) -> int:
    """Return a random cell with the minors and the adults of `need`, weighted by its bodies of this age, or -1."""
    total, found = 0, -1
    for turn in range(2):
        left = draw * total
        for kind in kinds:
            same = kind & 127
            if kind >> 7 != int(minor) and number[same] >= need[0] and number[128 + same] >= need[1]:
                total += number[kind] * (turn == 0)
                left -= number[kind]
                if turn == 1 and left < 0:
                    return int(same)
                found = int(same)
    return found


@compiled
def _take(number: IntArray, kinds: IntArray, minor: bool, rule: int, wanted: int, draw: float) -> int:
    """Take a random body of this age, by the strictest rule that one of them fits, and return its cell."""
    while True:
        total = 0
        for turn in range(2):
            left = draw * total
            for kind in kinds:
                if kind >> 7 == int(minor) or number[kind] == 0 or not _fits(kind & 127, rule, wanted):
                    continue
                total += number[kind] * (turn == 0)
                left -= number[kind]
                if turn == 1 and left < 0:
                    number[kind] -= 1
                    return int(kind & 127)
        rule += 1


@compiled
def _fits(cell: int, rule: int, wanted: int) -> bool:
    if rule == SAME_CELL:
        return cell == wanted
    return rule == ANY or cell % SETS == wanted % SETS
