"""Detailed codes of race and ethnicity, given each person's ethnicity and set of major races.

A person has a code for each major race of the set and sometimes more, each of a race of the set. So CENRACE is the set
of the codes' major races, and CENHISP follows from QSPAN. Sets and numbers of codes have the law of independent codes,
whose number follows CODE_COUNTS, each of a major race by its share of all answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tasks.synth.draws import Draws, FloatArray, Laws, Purpose, fraction, make_laws, shares
from tasks.synth.population.model import RELATIVES, Codes, Households, IntArray, has_role

# White, Black, American Indian and Alaska Native, Asian, Native Hawaiian and Pacific Islander, Some Other Race
MAJOR_RACES = 6
SETS = 1 << MAJOR_RACES
# Probabilities of 1, 2, ... 8 race codes: 10% have more than one.
CODE_COUNTS = np.array([0.90, 0.082, 0.0145, 0.0025, 0.0006, 0.0002, 0.0001, 0.0001])
SPREADS = 16  # the number of distances between a person's two codes; bounds the number of distinct combinations
SAME_CODES = 0.7  # own: share of relatives with the householder's codes, if their races are the same
MEMBERS = np.zeros((SETS, MAJOR_RACES), np.int64)  # the major races of a set, repeated
SIZES = np.array([number.bit_count() for number in range(SETS)])
for _races in range(1, SETS):
    _members = [race for race in range(MAJOR_RACES) if _races >> race & 1]
    MEMBERS[_races] = np.resize(_members, MAJOR_RACES)


def _cenrace() -> NDArray[np.uint8]:
    """Return CENRACE by set of races: 1 to 6 one race, 7 to 21 two, ... 63 all six, in the order of their races."""
    groups = [group for size in range(1, MAJOR_RACES + 1) for group in combinations(range(MAJOR_RACES), size)]
    table = np.zeros(SETS, np.uint8)
    for number, group in enumerate(groups, start=1):
        table[sum(1 << race for race in group)] = number
    return table


CENRACE = _cenrace()


@dataclass(frozen=True)
class Origins:
    """The joint law of QSPAN and the race codes in one country.

    race: race codes, `S4` of shape (c,), in the order of the list, so that related codes are adjacent. span: QSPAN
    codes, `S4` of shape (1 + h,); the first is for persons who are not Hispanic.
    Laws: spans of QSPAN, by whether Hispanic; cells of the 128 cells 64 * Hispanic + set of races; counts of the number
    of codes minus 1, by cell; codes of the race codes, by 6 * Hispanic + major race. nearest: (128,), by cell, the set
    of races that codes can give.
    """

    race: NDArray[np.bytes_]
    span: NDArray[np.bytes_]
    spans: Laws
    cells: Laws
    counts: Laws
    codes: Laws
    nearest: IntArray


def make_origins(
    race: NDArray[np.bytes_],
    major: IntArray,
    race_shares: FloatArray,
    span: NDArray[np.bytes_],
    span_shares: FloatArray,
    most_codes: int,
) -> Origins:
    """Return the law of these codes.

    major: (c,), the major race of each race code. race_shares: (2, c), of the codes of persons who are not Hispanic,
    and of Hispanic persons. span_shares: (1 + h,), of all persons.
    """
    counts = shares(CODE_COUNTS[:most_codes])
    hispanic = float(span_shares[1:].sum())
    cells, numbers, codes, nearest = [], [], [], list[int]()
    for law, part in zip(race_shares, (1 - hispanic, hispanic), strict=True):
        of_major = np.bincount(major, law, MAJOR_RACES).astype(float)
        nearest += [_nearest(races, of_major, most_codes) for races in range(SETS)]
        within = np.array([of_major[[race for race in range(6) if races >> race & 1]].sum() for races in range(SETS)])
        of_count = np.array([_exactly(chance * within ** (k + 1)) for k, chance in enumerate(counts)])  # (k, SETS)
        cells.append(part * of_count.sum(axis=0))
        first = np.arange(1, most_codes + 1)[:, None] == np.clip(SIZES, 1, most_codes)  # for a set without a chance
        numbers += [*np.where(of_count.sum(axis=0) > 0, of_count, first).T]
        for race_number in range(MAJOR_RACES):
            own = np.where(major == race_number, law, 0.0)
            codes.append(shares(own) if own.any() else np.eye(1, len(law))[0])
    no_span = np.eye(1, len(span))[0]
    others = np.concatenate([[0.0], span_shares[1:]])
    return Origins(
        race,
        span,
        make_laws(no_span, shares(others) if others.any() else no_span),
        make_laws(shares(np.concatenate(cells))),
        make_laws(*(shares(number) for number in numbers)),
        make_laws(*codes),
        np.array(nearest),
    )


def _nearest(races: int, of_major: FloatArray, most: int) -> int:
    """Return a set with those of the races that have codes, at most `most`; without any, the most frequent race."""
    having = [race for race in range(MAJOR_RACES) if races >> race & 1 and of_major[race] > 0]
    return sum(1 << race for race in having[:most] or [int(of_major.argmax())])


def _exactly(within: FloatArray) -> FloatArray:
    """Return the probability of each set from that of all codes being of some of its races (Moebius' inversion)."""
    exact = within.copy()
    exact[0] = 0.0
    for race in range(MAJOR_RACES):
        has = np.arange(SETS) >> race & 1 == 1
        exact[has] -= exact[np.flatnonzero(has) ^ (1 << race)]
    exact[0] = 0.0
    return np.maximum(exact, 0.0) * (exact > 1e-15)


def draw_codes(
    homes: Households,
    role: NDArray[np.uint8],
    cell: NDArray[np.uint8],
    point: FloatArray,
    origins: Origins,
    draws: Draws,
) -> Codes:
    """Return the codes of each person."""
    codes = len(origins.race)
    number = draws.uniform(Purpose.CODES, homes.tract)
    shared = has_role(role, RELATIVES) & (cell == cell[homes.head_of])
    shared &= draws.uniform(Purpose.SHARED_CODES, homes.tract) < SAME_CODES
    source = np.where(shared, homes.head_of, np.arange(len(cell)))
    point, number = point[source], number[source]
    hispanic, races = cell.astype(np.int64) >> 6, cell & (SETS - 1)
    span, point = origins.spans.split(hispanic + point)
    race = origins.codes.draw(hispanic * MAJOR_RACES + MEMBERS[races, 0] + point)
    further, rest = origins.counts.split(cell + number)
    several = np.flatnonzero(further)
    step, many, size = np.arange(8), further[several, None], SIZES[races[several, None]]
    turn = rest[several, None] * size  # decides which of the races comes first
    spread = np.floor(fraction(turn) * SPREADS) / SPREADS / 5
    at = fraction(point[several, None] + (step - spread * (step > 0)) / (many + 1))
    major = MEMBERS[races[several, None], (step + turn.astype(np.int64)) % size]
    at += hispanic[several, None] * MAJOR_RACES + major
    every = origins.codes.draw(at.ravel()).reshape(at.shape)
    race[several] = every[:, 0]
    more = _distinct(race[several], np.where(step <= many, every, codes)[:, 1:], null=codes)
    return Codes(span.astype(np.uint8), race.astype(np.uint16), several, more)


def _distinct(first: IntArray, more: IntArray, *, null: int) -> NDArray[np.uint16]:
    """Return further codes, Nulls last: a code becomes Null if an earlier one is the same."""
    codes = np.column_stack([first, more])
    for j in range(1, codes.shape[1]):
        codes[(codes[:, :j] == codes[:, j, None]).any(axis=1), j] = null
    order = np.argsort(codes[:, 1:] == null, axis=1, kind="stable")
    return np.take_along_axis(codes[:, 1:], order, axis=1).astype(np.uint16)
