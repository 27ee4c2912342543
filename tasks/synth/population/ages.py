"""Age and sex. Ages of a tract follow the pyramid exactly in law; roles decide, by rank, who gets which age.

The pyramid is this project's own: a rounded shape of the United States in 2020 (a bulge at 25-34 and at 55-64, fewer
children than adults, women outliving men), drawn through the anchors below, not copied from a published table.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.synth.draws import Draws, FloatArray, Laws, Purpose, make_laws, shares
from tasks.synth.population.model import (
    ADULT_AGE,
    ALONE,
    COHABITING,
    MARRIED,
    OWN_CHILDREN,
    SAME_SEX_PARTNER,
    SAME_SEX_SPOUSE,
    SECOND,
    Households,
    IntArray,
    has_role,
)

OLDEST = 115
AGES = OLDEST + 1
# Persons of one year of age, relative to age 30; linear in between.
_AGE_ANCHORS = {0: 0.80, 5: 0.88, 12: 0.95, 20: 0.97, 30: 1.0, 38: 0.97, 45: 0.88, 57: 0.96, 65: 0.82, 73: 0.62}
_AGE_ANCHORS |= {80: 0.34, 85: 0.21, 90: 0.105, 95: 0.032, 100: 0.005, 105: 2e-4, 110: 4e-6, OLDEST: 1e-7}
# Women among persons of that age.
_FEMALE_ANCHORS = {0: 0.489, 30: 0.496, 45: 0.506, 65: 0.525, 80: 0.575, 90: 0.665, 100: 0.81, OLDEST: 0.9}
# Ages of adults and of minors in group quarters by type; own.
_ADULTS = ((18, OLDEST), (18, 60), (18, 21), (65, OLDEST), (18, OLDEST), (18, 22), (18, 40), (18, OLDEST))
_MINORS = ((0, 17), (17, 17), (10, 17), (17, 17), (0, 17), (17, 17), (17, 17), (0, 17))
NURSING, NURSING_OLD = 3, 0.85  # the type, and the share of its residents aged 65 and over
FEMALE_HEAD = np.array([0, 0.5, 0.5, 0.69, 0.55])  # householders by type of household; own and ACS 2017-2021
SAME_SEX = np.array([0, 0.011, 0.06, 0, 0])  # couples, 2020
FEMALE_SHIFT = 0.013  # the share of women among everybody else is lower by this, so that the pyramid's share holds
PARENT_GAP, TRIES = 15, 20
# Typical age and its spread: householders alone, with adult children, with minors, others; then adults by role. Own.
_HEADS = np.array([[56.0, 19.0], [59.0, 9.0], [41.0, 9.0], [50.0, 17.0]])
_ROLES = {29: (76, 9), 31: (76, 9), 32: (31, 8), 30: (24, 4), 34: (33, 12), 36: (36, 13)}
_TYPICAL = np.zeros((2, 256))  # typical age and its spread by RELSHIP; 0 where it follows the householder's
_TYPICAL[:, [*_ROLES]] = np.transpose([*_ROLES.values()])
_BINS = 1 << 9  # for typical ages; minors have one half of 10 bits, adults the other


def age_shares() -> FloatArray:
    """Return the share of each year of age, (AGES,)."""
    return shares(_line(_AGE_ANCHORS))


def _line(anchors: dict[int, float]) -> FloatArray:
    return np.interp(np.arange(AGES), list(anchors), list(anchors.values()))


@cache
def _age_laws() -> Laws:
    """Return the laws of age by kind of quarters, minors and adults of each in turn."""
    laws, years = [], np.arange(AGES)
    for kind, ranges in enumerate(zip(_MINORS, _ADULTS, strict=True)):
        for low, high in ranges:
            law = shares(np.where((years >= low) & (years <= high), age_shares(), 0.0))
            if kind == NURSING and low >= 65:
                middle = shares(np.where((years >= ADULT_AGE) & (years < 65), age_shares(), 0.0))
                law = NURSING_OLD * law + (1 - NURSING_OLD) * middle
            laws.append(law)
    return make_laws(*laws)


def draw_ages(homes: Households, role: NDArray[np.uint8], draws: Draws) -> NDArray[np.uint8]:
    """Return each person's age; few own children are less than PARENT_GAP years younger than the householder."""
    adult = ~homes.minor
    law = homes.kind[homes.unit].astype(np.int64) * 2 + adult
    age = _age_laws().draw(law + draws.uniform(Purpose.AGE, homes.tract)).astype(np.uint8)
    housed = np.flatnonzero(homes.kind[homes.unit] == 0)
    tract = homes.tract[housed].astype(np.uint16)  # fewer than 64 of them
    wanted = np.argsort((tract << 10) | _typical(homes, role, draws)[housed], kind="stable")
    given = np.sort((tract << 7) | age[housed], kind="stable") & 127
    age[housed[wanted]] = given
    child = has_role(role, OWN_CHILDREN)
    movable = (role != 20) & (role < 37)
    start = np.searchsorted(homes.tract, np.arange(int(homes.tract.max(initial=-1)) + 2))
    draw = draws.uniform(Purpose.AGE_SWAP, homes.tract)
    _swap_ages(start, homes.tract, homes.head_of, child, homes.minor, movable, draw, age)
    return age


@compiled
def _swap_ages(
    tract_start: IntArray,
    tract: IntArray,
    head: IntArray,
    is_child: NDArray[np.bool_],
    minor: NDArray[np.bool_],
    movable: NDArray[np.bool_],
    draws: FloatArray,
    age: NDArray[np.uint8],
) -> None:
    """Swap ages within a tract until householders are PARENT_GAP years older than own children, or after TRIES.

    tract_start: first row of each tract's persons, and the end. head: the row of each person's householder. movable:
    persons whose age may be swapped; minors swap with minors, adults with adults.
    """
    for row in range(len(age)):
        if not is_child[row] or int(age[head[row]]) - int(age[row]) >= PARENT_GAP:
            continue
        start, end = tract_start[tract[row]], tract_start[tract[row] + 1]
        other, step = start + int(draws[row] * (end - start)), 1 + int(draws[row] * 7919) % 97
        for _ in range(TRIES * 8):
            other += step
            if other >= end:
                other = start + (other - end) % (end - start)
            if not movable[other] or minor[other] != minor[row]:
                continue
            fits = int(age[head[row]]) - int(age[other]) >= PARENT_GAP
            if fits and (not is_child[other] or int(age[head[other]]) - int(age[row]) >= PARENT_GAP):
                age[row], age[other] = age[other], age[row]
                break


def _typical(homes: Households, role: NDArray[np.uint8], draws: Draws) -> NDArray[np.uint16]:
    """Return the rank, in 10 bits, of each person's typical age among the minors or among the adults."""
    noise = draws.normal(Purpose.TYPICAL_AGE, homes.tract)
    child = has_role(role, OWN_CHILDREN)
    with_adults = np.bincount(homes.unit[child & ~homes.minor], minlength=len(homes.size)) > 0  # children
    kind = np.select([homes.type == ALONE, with_adults, homes.with_minors], [0, 1, 2], 3)
    middle, spread = _HEADS[kind].T
    own = middle[homes.unit] + spread[homes.unit] * noise  # as a householder
    head = own[homes.head_of]
    age = np.where(role == 20, own, head + np.where(homes.part == SECOND, 4.0, 10.0) * noise)
    age = np.where(child, head - 27 + 7 * noise, age)
    typical, sd = _TYPICAL[:, role]
    age = np.where(sd > 0, typical + sd * noise, age)
    part = draws.uniform(Purpose.TYPICAL_AGE, homes.tract)  # the bits from which `noise` is made
    young = part * np.where(child, np.clip(head - 20, 1, 17), 17)
    adults = _BINS + np.clip((age - 10) * (_BINS / 100), 0, _BINS - 1)
    return np.where(homes.minor, np.clip(young * (_BINS / 17), 0, _BINS - 1), adults).astype(np.uint16)


def draw_sexes(
    homes: Households, role: NDArray[np.uint8], age: NDArray[np.uint8], draws: Draws
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return each person's sex (0 male, 1 female), and RELSHIP, in which same-sex couples now have their own codes."""
    draw = draws.uniform(Purpose.SEX, homes.tract)
    kind = homes.type[homes.unit]
    chance = np.where(role == 20, FEMALE_HEAD[kind], _line(_FEMALE_ANCHORS)[age] - FEMALE_SHIFT)
    sex = draw < chance
    same = (draws.uniform(Purpose.SAME_SEX, homes.unit_tract) < SAME_SEX[homes.type])[homes.unit]
    second = homes.part == SECOND
    sex = np.where(second, sex[homes.head_of] == same, sex)
    role = np.where(second & same & (kind == MARRIED), SAME_SEX_SPOUSE, role)
    role = np.where(second & same & (kind == COHABITING), SAME_SEX_PARTNER, role)
    return sex.astype(np.uint8), role.astype(np.uint8)
