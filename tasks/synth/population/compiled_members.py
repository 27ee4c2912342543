"""Who is in each household of a block: its type, and which of its persons are minors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled
from tasks.synth.population.model import ALONE, COHABITING, MARRIED, NEITHER

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
WITH_MINORS, FEWER, LARGE = 0.36, 0.03, 5  # own: part of households where minors are likely; how likely elsewhere
HEAD, SECOND, FURTHER = 0, 1, 2  # a person's part: householder, the householder's spouse or partner, anybody else


@compiled
def _own_weight(weight: float, size: int, draw: float) -> float:
    """Return the weight of a place for a minor: some households have many, most have few, and large ones more."""
    likely = 1.0 if (draw * size) % 1.0 < WITH_MINORS else FEWER
    return weight * likely * (size if size < LARGE else LARGE)


@compiled
def place_members(
    ends: IntArray,
    minors: IntArray,
    first: IntArray,
    size: IntArray,
    type_draws: FloatArray,
    order_draws: FloatArray,
    member_draws: FloatArray,
    types: FloatArray,
    weights: FloatArray,
    type_of: NDArray[np.uint8],
    head: IntArray,
    part: NDArray[np.uint8],
    minor: NDArray[np.bool_],
) -> None:
    """Give every household a type, a householder and, if a couple, the second; place each block's minors exactly.

    ends: (b, 2), rows of each block's occupied housing units among `first`, `size` and other arrays of units. minors:
    (b,). types: (s, 2), shares of married and cohabiting by size, the last for all larger. weights: of a free place of
    each type for a minor. A couple needs two adults: where a block has too few, the largest are couples no longer; and
    a minor is householder only where even householders are too few.
    """
    for block in range(len(ends)):
        start, end = ends[block, 0], ends[block, 1]
        persons, couples = 0, 0
        for unit in range(start, end):
            persons += size[unit]
            shares = types[min(size[unit], len(types) - 1)]
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
            weight += _own_weight(weights[type_of[unit]], size[unit], order_draws[unit]) * (size[unit] - 1 - couple)
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
                    own = _own_weight(weights[type_of[unit]], size[unit], order_draws[unit])
                    if left > 0 and (left >= free or member_draws[row] * weight < left * own):
                        minor[row] = True
                        left -= 1
                    free -= 1
                    weight -= own


@compiled
def swap_ages(
    tract_start: IntArray,
    tract: IntArray,
    head: IntArray,
    is_child: NDArray[np.bool_],
    minor: NDArray[np.bool_],
    movable: NDArray[np.bool_],
    draws: FloatArray,
    gap: int,
    tries: int,
    age: NDArray[np.uint8],
) -> None:
    """Swap ages within a tract until householders are `gap` years older than own children, or after `tries`.

    tract_start: first row of each tract's persons, and the end. head: the row of each person's householder. movable:
    whose age may be given to another; minors swap with minors, adults with adults.
    """
    for row in range(len(age)):
        if not is_child[row] or int(age[head[row]]) - int(age[row]) >= gap:
            continue
        start, end = tract_start[tract[row]], tract_start[tract[row] + 1]
        other, step = start + int(draws[row] * (end - start)), 1 + int(draws[row] * 7919) % 97
        for _ in range(tries * 8):
            other += step
            if other >= end:
                other = start + (other - end) % (end - start)
            if not movable[other] or minor[other] != minor[row]:
                continue
            fits = int(age[head[row]]) - int(age[other]) >= gap
            if fits and (not is_child[other] or int(age[head[other]]) - int(age[row]) >= gap):
                age[row], age[other] = age[other], age[row]
                break
