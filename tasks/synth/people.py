"""Synthetic persons, drawn as arrays: who lives in the rows [start, start + count) of a place.

Groups cluster in space. Every person has a point u on a circle on which related origins are neighbours. For most
persons u depends on where they live, so members of rare groups live near one another. Each way of drawing u sweeps
the circle a whole number of times over the place, so that its marginal law is uniform: the shares of all groups in the
whole place are those of `Origins`, whatever the clustering.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.synth.age import cell_edges, householder_pattern
from tasks.synth.origins import Origins
from tasks.synth.proportions import outcomes

SCATTERED = 0.30  # share of persons whose origin has nothing to do with where they live
ONE_HOME = 0.25  # share that lives near the one home of their group; the others near one of its settlements
HOME_WIDTH = 0.03  # how far, as a part of the circle
SETTLEMENT_WIDTH = 0.01
PERSONS_PER_SETTLEMENT = 2_500_000
FEWEST_SETTLEMENTS = 3
# Chances of 1, 2, ... 8 race codes: 10% have more than one.
CODE_COUNTS = np.array([0.90, 0.082, 0.0145, 0.0025, 0.0006, 0.0002, 0.0001, 0.0001])
SPREADS = 16  # how many distances two codes of one person can have; bounds the number of distinct combinations


@dataclass(frozen=True)
class People:
    """n persons in the order of their blocks.

    block: int64 (n,), row of the block table. cell: uint8 (n,), sex and age (synth_age.cell). householder: bool (n,).
    span: uint8 (n,), index into Origins.span. race: uint16 (n,), index into Origins.race of QRACE1.
    several: int64 (m,), those with two or more codes. more: uint16 (m, 7), their QRACE2..QRACE8; len(race) is Null.
    """

    block: np.ndarray
    cell: np.ndarray
    householder: np.ndarray
    span: np.ndarray
    race: np.ndarray
    several: np.ndarray
    more: np.ndarray


@dataclass(frozen=True)
class Place:
    """A run of persons among all persons of a country: a state, or a whole table.

    before: persons of the country before the place. country: persons of the whole country.
    ends: int64 (blocks,), persons of the place up to and with each block.
    """

    before: int
    country: int
    ends: np.ndarray


def draw_people(place: Place, origins: Origins, start: int, count: int, random: np.random.Generator) -> People:
    """Draw the persons in rows start .. start + count - 1 of a place; the same generator state gives the same ones."""
    householder = householder_pattern(start, count)
    cell = outcomes(cell_edges(), random.random(count) + householder) % (len(cell_edges()) // 2)
    position = (np.arange(start, start + count) + place.before) / place.country
    span, at = _origin(origins, _circle(position, place.country, random))
    several, more = _more_codes(origins, span, at, random)
    race = outcomes(origins.race_edges, at + (span > 0)) % len(origins.race)
    rows = np.arange(start, start + count)
    return People(
        block=np.searchsorted(place.ends, rows, side="right"),
        cell=cell.astype(np.uint8),
        householder=householder,
        span=span.astype(np.uint8),
        race=race.astype(np.uint16),
        several=several,
        more=_distinct(race[several], more, null=len(origins.race)),
    )


def _circle(position: np.ndarray, country: int, random: np.random.Generator) -> np.ndarray:
    """Return the point u in [0, 1) of persons at `position` in [0, 1) of their country."""
    kind = random.random(len(position))
    settlements = max(FEWEST_SETTLEMENTS, round(country / PERSONS_PER_SETTLEMENT))
    scattered, home = kind < SCATTERED, kind < SCATTERED + ONE_HOME
    sweeps = np.where(home, 1, settlements)
    width = np.where(scattered, 1.0, np.where(home, HOME_WIDTH, SETTLEMENT_WIDTH))
    return (position * sweeps + random.random(len(position)) * width) % 1.0


def _origin(origins: Origins, circle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the QSPAN of each person, and the person's point in [0, 1) of that group."""
    span = outcomes(origins.span_edges, circle)
    lower = np.concatenate([[0.0], origins.span_edges[:-1]])
    width = np.maximum(origins.span_edges - lower, np.finfo(float).tiny)
    return span, np.minimum((circle - lower[span]) / width[span], np.nextafter(1.0, 0.0))


def _more_codes(
    origins: Origins, span: np.ndarray, at: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with two or more codes, and their further codes, (m, 7) with Null = len(origins.race).

    Code j of k is about j/k of the circle away from the first, so that each has the law of the first.
    """
    chances = CODE_COUNTS[: origins.most_codes] / CODE_COUNTS[: origins.most_codes].sum()
    number = outcomes(chances.cumsum()[:-1], random.random(len(at)))  # of further codes
    several = np.flatnonzero(number)
    further, step = number[several, None], np.arange(1, 8)
    spread = random.integers(0, SPREADS, (len(several), 7)) / SPREADS / 5
    away = (at[several, None] + (step - spread) / (further + 1)) % 1.0
    more = outcomes(origins.race_edges, away + (span[several, None] > 0)) % len(origins.race)
    return several, np.where(step <= further, more, len(origins.race))


def _distinct(first: np.ndarray, more: np.ndarray, *, null: int) -> np.ndarray:
    """Return further codes, Nulls last: code j becomes Null where an earlier one is the same (a rare event)."""
    codes = np.column_stack([first, more])
    for j in range(1, codes.shape[1]):
        codes[(codes[:, :j] == codes[:, j, None]).any(axis=1), j] = null
    order = np.argsort(codes[:, 1:] == null, axis=1, kind="stable")
    return np.take_along_axis(codes[:, 1:], order, axis=1).astype(np.uint16)
