"""Ethnicity and race: published cells of a block or drawn ones, shared within households.

Groups cluster in space. Every person has a point u on a circle on which related origins are neighbours. For most
persons u depends on where they live, so members of rare groups live near one another. Each way of drawing u sweeps
the circle a whole number of times over the country, so that its marginal law is uniform: the shares of all groups in
the whole country are those of `Origins`, whatever the clustering.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.synth.population.codes import Origins
from tasks.synth.population.compiled_draws import Draws, FloatArray, Purpose
from tasks.synth.population.compiled_races import match_bodies
from tasks.synth.population.households import Households
from tasks.synth.population.model import Tracts
from tasks.synth.proportions import outcomes

SCATTERED = 0.30  # share of persons whose origin has nothing to do with where they live
ONE_HOME = 0.25  # share that lives near the one home of their group; the others near one of its settlements
HOME_WIDTH = 0.03  # how far, as a part of the circle
SETTLEMENT_WIDTH = 0.01
PERSONS_PER_SETTLEMENT = 2_500_000
FEWEST_SETTLEMENTS = 3
RUN = 4  # own: persons of a block one after the other who have the same cell, so that a rare one can fill a home
NEARBY = 0.2  # own: how far apart their origins are, as a part of the cell
GOLDEN, GOLDEN_KINDS = 5**0.5 / 2 - 0.5, 2**0.5 - 1  # multiples of both, modulo 1, are spread evenly, and independent
SAME_ETHNICITY, SAME_RACE = 0.75, 0.99  # of a household's members with the householder, before chance; own


def draw_races(
    tracts: Tracts, homes: Households, origins: Origins, draws: Draws
) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return each person's cell, 64 * Hispanic + set of races, and point in [0, 1) of the origins in that cell."""
    block = homes.block[homes.unit]
    ends = np.searchsorted(block, np.arange(len(tracts.tract) + 1))
    leads = (np.arange(len(block)) - ends[block]) % RUN == 0
    point = _circle(tracts, homes, leads, draws)
    if tracts.cells is None:
        cell = outcomes(origins.cell_edges, point)
        lower = np.concatenate([[0.0], origins.cell_edges[:-1]])
        width = np.maximum(origins.cell_edges - lower, np.finfo(float).tiny)
        point = np.minimum((point - lower[cell]) / width[cell], np.nextafter(1.0, 0.0))
        leader = np.maximum.accumulate(np.where(leads, np.arange(len(cell)), 0))
        near = draws.uniform(Purpose.NEIGHBOUR, homes.tract) * NEARBY
        cell, point = cell[leader], np.where(leads, point, (point[leader] + near) % 1.0)
        slot = adult = np.zeros(len(block), np.uint8)  # any of them may be an adult
    else:
        cell, adult = tracts.cells[:, 1] & 127, (tracts.cells[:, 1] >> 7).astype(np.uint8)
        slot = (~homes.minor).astype(np.uint8)
    body = np.empty(len(block), np.int64)
    match_bodies(
        ends,
        homes.head_of,
        slot,
        adult,
        cell.astype(np.uint8),
        draws.uniform(Purpose.SHARED_RACE, homes.tract),
        draws.uniform(Purpose.BODY, homes.tract),
        SAME_ETHNICITY,
        SAME_RACE,
        body,
    )
    return cell.astype(np.uint8)[body], point[body]


def _circle(tracts: Tracts, homes: Households, leads: NDArray[np.bool_], draws: Draws) -> FloatArray:
    """Return the point u in [0, 1) of the persons in their order in the country.

    Those of the leaders of a tract are spread evenly, from a place that is drawn, so that counts vary less.
    """
    country = tracts.country
    position = (np.arange(len(homes.unit)) + tracts.before) / country
    kind, away = (draws.uniform(purpose, homes.tract) for purpose in (Purpose.SETTLEMENT, Purpose.ORIGIN))
    starts = np.searchsorted(homes.tract, homes.tract)
    number = leads.cumsum() - leads
    number -= number[starts]
    kind = np.where(leads, (kind[starts] + number * GOLDEN_KINDS) % 1.0, kind)
    away = np.where(leads, (away[starts] + number * GOLDEN) % 1.0, away)
    settlements = max(FEWEST_SETTLEMENTS, round(country / PERSONS_PER_SETTLEMENT))
    sweeps = np.where(kind < SCATTERED + ONE_HOME, 1, settlements)
    width = np.where(kind < SCATTERED, 1.0, np.where(kind < SCATTERED + ONE_HOME, HOME_WIDTH, SETTLEMENT_WIDTH))
    return np.asarray((position * sweeps + away * width) % 1.0)
