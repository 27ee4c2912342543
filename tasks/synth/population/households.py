"""Units of a state's tracts with their sizes and tenure, and each person's part in a household.

Shares are fitted to published summary figures of 2020 and of the American Community Survey 2017-2021: married couples
46.2% of households, cohabiting ones 6.9%, one-person households 27.6%; persons in households: householders 39.2%,
spouses 18.2, partners 2.7, children 29.4, other relatives 7.1, nonrelatives 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.synth.draws import Draws, FloatArray, Purpose, make_laws, number_within
from tasks.synth.population.model import (
    ALONE,
    COHABITING,
    FURTHER,
    HEAD,
    HOUSEHOLDER,
    INSTITUTIONAL,
    MARRIED,
    NEITHER,
    NO_RENT,
    NONINSTITUTIONAL,
    OWNED,
    OWNED_WITH_MORTGAGE,
    PARTNER,
    RENTED,
    SECOND,
    SPOUSE,
    Households,
    IntArray,
    Tracts,
)
from tasks.synth.population.sizes import StateSizeLaw, draw_sizes

# Shares of married and cohabiting households by size, the last for all larger ones; own.
TYPES = np.array([[0, 0], [0, 0], [0.60, 0.105], [0.60, 0.11], [0.72, 0.075], [0.72, 0.07], [0.66, 0.07]])
MINOR_WEIGHTS = np.array([0.0, 1.0, 0.8, 0.9, 0.0])  # weight of a free place for a minor, by type of household; own
MINORS = 0.221  # share of all persons, 2020
UNDER_18 = np.array([np.nan, 0, 0.95, 0, 0.1, 0.015, 0.005, 0.1])  # by type of group quarters; own
NURSING = 3
# RELSHIP of minors, of further adults, and of those in a household of roommates; own.
OWN_CHILD = {25: 0.92, 26: 0.023, 27: 0.057}
MINOR_ROLES = {role: 0.88 * share for role, share in OWN_CHILD.items()} | {
    30: 0.075, 28: 0.010, 33: 0.015, 35: 0.004, 34: 0.002, 36: 0.014,
}  # fmt: skip
ADULT_ROLES = {role: 0.55 * share for role, share in OWN_CHILD.items()} | {
    28: 0.09, 29: 0.08, 31: 0.02, 32: 0.03, 30: 0.02, 33: 0.04, 34: 0.05, 36: 0.05,
}  # fmt: skip
ROOMMATE_ROLES = {34: 0.7, 36: 0.3}
ROOMMATES = 0.14  # share of households without couple and minors in which no further member is a relative
WITH_MINORS, FEWER, LARGE = 0.36, 0.03, 5  # own: share of households where minors are likely; their weight elsewhere
OWNERS = np.array([0, 0.80, 0.45, 0.45, 0.53])  # by type of household, own; 63.1% of all in 2020
MORTGAGE_AGES, MORTGAGES = (35, 75), (0.90, 0.25)  # share of owners, falling with the householder's age; own
WITHOUT_RENT = 0.04  # share of households that do not own; own
ROLES = np.array(sorted({*MINOR_ROLES, *ADULT_ROLES}))
ROLE_LAWS = make_laws(
    *(np.array([law.get(role, 0.0) for role in ROLES]) for law in (MINOR_ROLES, ADULT_ROLES, ROOMMATE_ROLES))
)


@dataclass(frozen=True)
class StateLaw:
    """The law of a state's households. minor_chance: the probability that a non-householder is a minor."""

    sizes: StateSizeLaw
    minor_chance: float


def form_households(tracts: Tracts, law: StateLaw, draws: Draws) -> Households:
    """Return the units of some tracts with their sizes and types, and the parts of their members."""
    block, kind, size = _units(tracts, law.sizes, draws)
    unit_tract, first = tracts.tract[block], size.cumsum() - size
    unit = np.repeat(np.arange(len(size)), size)
    tract, kind_of = unit_tract[unit], kind[unit]
    minor, minors = _minors(tracts, law, draws, block[unit], tract, kind_of)
    lived_in = np.flatnonzero((kind == 0) & (size > 0))
    type_of, head = np.zeros(len(lived_in), np.uint8), np.zeros(len(lived_in), np.int64)
    part = np.full(len(unit), FURTHER, np.uint8)
    ends = tracts.occupied.cumsum()
    order = draws.uniform(Purpose.ORDER, unit_tract)
    _place_members(
        np.column_stack([ends - tracts.occupied, ends]),
        minors,
        first[lived_in],
        size[lived_in],
        draws.uniform(Purpose.TYPE, unit_tract)[lived_in],
        order[lived_in],
        draws.uniform(Purpose.MEMBER, tract),
        type_of,
        head,
        part,
        minor,
    )
    types, heads = np.zeros(len(size), np.uint8), np.full(len(size), -1)
    types[lived_in], heads[lived_in] = type_of, head
    own = np.arange(len(unit))
    head_of = np.where(kind_of == 0, heads[unit], own)
    return Households(block, kind, size, first, heads, types, unit_tract, unit, tract, head_of, part, minor)


@compiled
def _own_weight(kind: int, size: int, draw: float) -> float:
    """Return the weight of a place for a minor: a few households have many minors, especially large ones."""
    likely = 1.0 if (draw * size) % 1.0 < WITH_MINORS else FEWER
    return float(MINOR_WEIGHTS[kind]) * likely * (size if size < LARGE else LARGE)


@compiled
def _place_members(
    ends: IntArray,
    minors: IntArray,
    first: IntArray,
    size: IntArray,
    type_draws: FloatArray,
    order_draws: FloatArray,
    member_draws: FloatArray,
    type_of: NDArray[np.uint8],
    head: IntArray,
    part: NDArray[np.uint8],
    minor: NDArray[np.bool_],
) -> None:
    """Give every household a type, a householder and, if a couple, the second; place each block's minors exactly.

    ends: (b, 2), rows of each block's occupied housing units among `first`, `size` and other arrays of units. minors:
    (b,). A couple needs two adults: in a block with too few, the largest couples become households without one. A minor
    is a householder only if there are not enough adults for all households.
    """
    for block in range(len(ends)):
        start, end = ends[block, 0], ends[block, 1]
        persons, couples = 0, 0
        for unit in range(start, end):
            persons += size[unit]
            shares = TYPES[min(size[unit], len(TYPES) - 1)]
            if size[unit] == 1:
                type_of[unit] = ALONE
            elif type_draws[unit] < shares[0] + shares[1]:
                type_of[unit] = MARRIED if type_draws[unit] < shares[0] else COHABITING
                couples += 1
            else:
                type_of[unit] = NEITHER
        adults = persons - minors[block]
        while couples > 0 and adults < end - start + couples:
            largest, at = 0, start
            for unit in range(start, end):
                if (type_of[unit] == MARRIED or type_of[unit] == COHABITING) and size[unit] > largest:
                    largest, at = size[unit], unit
            type_of[at] = NEITHER
            couples -= 1
        young = max(0, end - start - adults)  # householders
        left, free, weight = minors[block] - young, persons - (end - start) - couples, 0.0
        for unit in range(start, end):
            couple = type_of[unit] == MARRIED or type_of[unit] == COHABITING
            weight += _own_weight(type_of[unit], size[unit], order_draws[unit]) * (size[unit] - 1 - couple)
        for unit in range(start, end):
            couple = type_of[unit] == MARRIED or type_of[unit] == COHABITING
            turn = int(order_draws[unit] * size[unit])
            head[unit] = first[unit] + turn
            for place in range(size[unit]):
                row = first[unit] + (turn + place) % size[unit]
                if place == 0:
                    part[row] = HEAD
                    minor[row] = young > 0
                    young -= minor[row]
                elif place == 1 and couple:
                    part[row] = SECOND
                else:
                    part[row] = FURTHER
                    own = _own_weight(type_of[unit], size[unit], order_draws[unit])
                    if left > 0 and (left >= free or member_draws[row] * weight < left * own):
                        minor[row] = True
                        left -= 1
                    free -= 1
                    weight -= own


def _units(tracts: Tracts, law: StateSizeLaw, draws: Draws) -> tuple[IntArray, NDArray[np.uint8], IntArray]:
    """Return block, kind and size of every unit; the facilities of a type share its residents equally."""
    counts = tracts.facilities
    types = counts.shape[1]
    slot = np.repeat(np.arange(counts.size), counts.ravel())
    residents, number = tracts.residents.ravel()[slot], counts.ravel()[slot]
    size = residents // number + (number_within(counts.ravel()) < residents % number)
    of_block = counts.sum(axis=1)
    tract = tracts.tract[slot // types]
    draw_sizes(
        of_block.cumsum() - of_block,
        np.ascontiguousarray(counts[:, 0]),
        tracts.occupied,
        np.ascontiguousarray(tracts.residents[:, 0]),
        draws.uniform(Purpose.SIZE, tract),
        draws.uniform(Purpose.VACANCY, tract),
        law,
        size,
    )
    return slot // types, (slot % types).astype(np.uint8), size


def _minors(
    tracts: Tracts, law: StateLaw, draws: Draws, block: IntArray, tract: IntArray, kind: NDArray[np.uint8]
) -> tuple[NDArray[np.bool_], IntArray]:
    """Return a (n,) mask of the minors in group quarters, and the number of minors in each block's households."""
    blocks, chance = len(tracts.tract), UNDER_18[kind]
    minor = (kind > 0) & (draws.uniform(Purpose.MINORS_IN_QUARTERS, tract) < chance)
    if tracts.cells is None:
        free = tracts.residents[:, 0] - tracts.occupied
        rows = np.repeat(np.arange(blocks), free)
        chosen = draws.uniform(Purpose.MINORS, tracts.tract[rows]) < law.minor_chance
        return minor, np.bincount(rows[chosen], minlength=blocks)
    adults = np.bincount(tracts.cells[tracts.cells[:, 1] >= 128, 0], minlength=blocks)
    young = np.bincount(tracts.cells[:, 0], minlength=blocks) - adults
    minor &= _rank(block, minor) < young[block]  # at most as many as the block has, of either age
    older = (kind > 0) & ~minor
    short = np.bincount(block[older], minlength=blocks) - adults
    could = older & (kind != NURSING)
    minor |= could & (_rank(block, could) < short[block])
    return minor, young - np.bincount(block[minor], minlength=blocks)


def _rank(block: IntArray, chosen: NDArray[np.bool_]) -> IntArray:
    """Return the number of a block's chosen rows before each row; block: ascending."""
    before = chosen.cumsum() - chosen
    start = np.searchsorted(block, block)
    return np.asarray(before - before[start])


def choose_roles(homes: Households, draws: Draws) -> NDArray[np.uint8]:
    """Return RELSHIP of each person; until sex is drawn, spouses and partners have the code of the other sex."""
    unit, kind = homes.unit, homes.kind[homes.unit]
    draw = draws.uniform(Purpose.ROOMMATES, homes.unit_tract)
    roommates = (homes.type == NEITHER) & ~homes.with_minors & (draw < ROOMMATES)
    law = np.where(homes.minor, 0, 1 + roommates[unit])
    role = ROLES[ROLE_LAWS.draw(law + draws.uniform(Purpose.ROLE, homes.tract))].astype(np.uint8)
    second = np.where(homes.type[unit] == COHABITING, PARTNER, SPOUSE)
    role = np.where(homes.part == FURTHER, role, np.where(homes.part == HEAD, HOUSEHOLDER, second))
    in_group = np.where(kind < 5, INSTITUTIONAL, NONINSTITUTIONAL)
    return np.where(kind > 0, in_group, role).astype(np.uint8)


def draw_tenures(homes: Households, age: NDArray[np.uint8], draws: Draws) -> NDArray[np.uint8]:
    """Return TEN of each unit, 0 for a unit without a household."""
    draw = draws.uniform(Purpose.TENURE, homes.unit_tract)
    owners = OWNERS[homes.type]
    mortgages = np.interp(age[homes.head], MORTGAGE_AGES, MORTGAGES) if len(age) else owners
    owned = np.where(draw < owners * mortgages, OWNED_WITH_MORTGAGE, OWNED)
    rented = np.where(draw < owners + (1 - owners) * WITHOUT_RENT, NO_RENT, RENTED)
    return np.where(homes.head < 0, 0, np.where(draw < owners, owned, rented)).astype(np.uint8)
