"""Rounding: integers next to the least-squares solution, as close as can be to its nested sums.

    f = floor(x), b in {0, 1}, sum over children of b = what the parent has left, facilities' lower bounds met by f + b,
    min  sum over children [ w |sum b - t| + sum over nested query groups |Q b - round(Q frac)| + 2 |b - round(frac)| ]

with frac = x - f and round half to even: the production program's objective as it is executed. The option `l1` takes
the distances to frac itself. Sums nest in each child, cells meet in the parent: both are laminar, so this is a
minimum-cost flow  source -> (state) -> child -> hhgq -> hhgq*hispanic -> hhgq*hispanic*cenrace -> cell -> sink
with convex piecewise linear costs, and an integral optimum exists whenever x violates its constraints by less than one
person altogether (every cut is an inequality between integers: Hoffman's theorem).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, IntArray
from spine.top_down.flow import Network, cheapest_flow
from spine.workload import FloatArray

SNAP = 1e-7  # fractions below are 0
UNIT = 1 << 6  # costs of the option l1 are rounded to multiples of 1 / UNIT: few distances, few phases of the flow
CELL_WEIGHT = 2  # hhgq*votingage*hispanic*cenrace and detailed are the same cells: they count twice


class Rounded(NamedTuple):
    """x: (cells, children) integers. missing: what found no way (0 unless the fractions were infeasible); phases."""

    x: IntArray
    missing: int
    phases: int


@compiled
def floors(x: FloatArray, allowed: BoolArray, kind: IntArray) -> tuple[IntArray, FloatArray]:
    """floor(x), where what is a rounding error below an integer is that integer, and the fractions above it."""
    cells, children = x.shape
    delta = min(1e-6, 0.1 / (cells * children))
    whole, fraction = np.zeros((cells, children), np.int64), np.zeros((cells, children))
    for i in range(cells):
        for c in range(children):
            if allowed[kind[i], c]:
                whole[i, c] = int(np.floor(x[i, c] + delta))
                left = min(1.0, x[i, c] - whole[i, c])
                fraction[i, c] = left if left >= SNAP else 0.0
    return whole, fraction


@compiled
def one_arc(arcs: Network, at: int, tail: int, head: int, capacity: int, cost: int) -> int:
    """Put an arc at place `at`; returns the next place."""
    arcs.tail[at], arcs.head[at], arcs.capacity[at], arcs.cost[at] = tail, head, capacity, cost
    return at + 1


@compiled
def convex_arcs(
    arcs: Network,
    at: int,
    tail: int,
    head: int,
    least: int,
    target: float,
    most: int,
    weight: int,
    reward: int,
    exact: bool,
) -> int:
    """Add arcs whose flow u costs weight |u - target|, and `reward` less for each of the first `least` units.

    The target is rounded half to even first, unless exact. Returns the number of arcs after.
    """
    if exact:
        low = int(np.floor(target))
        between = int(np.rint(UNIT * (1.0 - 2.0 * (target - low))))
    else:
        low, between = int(np.rint(target)), UNIT
    done = 0
    for part in range(4):  # up to `least`, up to the target, the unit that the target lies in, beyond
        if part == 0:
            end, slope = min(least, low), -UNIT * weight - reward
        elif part == 1:
            end, slope = low, -UNIT * weight
        elif part == 2:
            end, slope = low + 1, between * weight
        else:
            end, slope = most, UNIT * weight
        end = min(end, most)
        if part >= 2 and done < least:  # lower bounds beyond the target
            extra = min(end, least)
            if extra > done:
                at = one_arc(arcs, at, tail, head, extra - done, slope - reward)
                done = extra
        if end > done:
            at = one_arc(arcs, at, tail, head, end - done, slope)
            done = end
    return at


@compiled
def rounded(
    x: FloatArray,
    counts: IntArray,
    kind: IntArray,
    nested: IntArray,
    allowed: BoolArray,
    least: IntArray,
    totals: IntArray,
    state: IntArray,
    state_totals: IntArray,
    total_first: bool,
    exact: bool,
) -> Rounded:
    """Round x, (cells, children).

    counts: (cells,) the parent's; empty at a root. kind: (cells,) type. nested: (groups, cells) coordinate of each cell
    in the nested query groups, coarse to fine. allowed, least: (types, children). totals: (1,) of all children at a
    root, else empty. state, state_totals: (children,) and (states,), where the children's totals are declared for
    groups of them; else empty. total_first: a child's total outweighs all else. exact: the option l1.
    """
    cells, children = x.shape
    whole, fraction = floors(x, allowed, kind)
    left = np.zeros(cells, np.int64)
    amount, live, held = 0, 0, 0
    place = np.empty(cells, np.int64)  # among the cells that have something left
    for i in range(cells):
        for c in range(children):
            held += whole[i, c]
            left[i] += 1 if len(counts) == 0 else -whole[i, c]
        if len(counts):
            left[i] += counts[i]
            amount += left[i]
        place[i] = live if left[i] > 0 else -1
        live += left[i] > 0
    if len(totals):
        amount = totals[0] - held
    if amount <= 0:
        return Rounded(whole, -amount, 0)
    levels, states = len(nested), len(state_totals)
    first = np.zeros(levels + 2, np.int64)  # first node of each level's coordinates, then of the cells
    first[0] = 1 + states + children
    number = np.zeros((levels, cells), np.int64)  # of each live cell's coordinate among those that occur
    width = np.zeros(levels, np.int64)
    for g in range(levels):
        highest = 0
        for i in range(cells):
            highest = max(highest, nested[g, i])
        seen = np.full(highest + 1, -1)
        for i in range(cells):
            if place[i] >= 0:
                if seen[nested[g, i]] < 0:
                    seen[nested[g, i]] = width[g]
                    width[g] += 1
                number[g, i] = seen[nested[g, i]]
        first[g + 1] = first[g] + width[g] * children
    sink = first[levels] + live
    most_arcs = states + live + children * (live + 5)
    for g in range(levels):
        most_arcs += 5 * children * width[g]
    arcs = Network(
        np.empty(most_arcs, np.int32),
        np.empty(most_arcs, np.int32),
        np.empty(most_arcs, np.int32),
        np.empty(most_arcs, np.int64),
        sink + 1,
    )
    first_weight = 1 + 2 * (levels + CELL_WEIGHT) * amount if total_first else 1
    reward = UNIT * (first_weight + levels + CELL_WEIGHT + 1) * 1000
    at = 0
    for s in range(states):
        room = state_totals[s]
        for c in range(children):
            if state[c] == s:
                for i in range(cells):
                    room -= whole[i, c]
        arcs.tail[at], arcs.head[at], arcs.capacity[at], arcs.cost[at] = 0, 1 + s, room, 0
        at += 1
    for c in range(children):
        target, room = 0.0, 0
        for i in range(cells):
            target += fraction[i, c]
            room += place[i] >= 0 and allowed[kind[i], c]
        above = 1 + state[c] if states else 0
        at = convex_arcs(arcs, at, above, 1 + states + c, 0, target, room, first_weight, reward, exact)
    wanted, rooms, top = np.zeros(cells), np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    for g in range(levels):
        for c in range(children):
            for k in range(width[g]):
                wanted[k], rooms[k] = 0.0, 0
            for i in range(cells):
                if place[i] >= 0 and allowed[kind[i], c]:
                    k = number[g, i]
                    wanted[k] += fraction[i, c]
                    rooms[k] += 1
                    top[k] = i
            for k in range(width[g]):
                if rooms[k]:
                    i = top[k]
                    needed = 0
                    if g == 0:
                        needed = least[kind[i], c]
                        for j in range(cells):
                            if kind[j] == kind[i]:
                                needed -= whole[j, c]
                    above = 1 + states + c if g == 0 else first[g - 1] + number[g - 1, i] * children + c
                    here = first[g] + k * children + c
                    at = convex_arcs(arcs, at, above, here, max(0, needed), wanted[k], rooms[k], 1, reward, exact)
    cells_from = at
    for i in range(cells):
        if place[i] >= 0:
            for c in range(children):
                if allowed[kind[i], c]:
                    above = first[levels - 1] + number[levels - 1, i] * children + c if levels else 1 + states + c
                    half = fraction[i, c] > 0.5
                    cost = -CELL_WEIGHT * UNIT if half else CELL_WEIGHT * UNIT
                    if exact:
                        cost = CELL_WEIGHT * int(np.rint(UNIT * (1.0 - 2.0 * fraction[i, c])))
                    arcs.tail[at], arcs.head[at] = above, first[levels] + place[i]
                    arcs.capacity[at], arcs.cost[at] = 1, cost
                    at += 1
    sinks_from = at
    for i in range(cells):
        if place[i] >= 0:
            arcs.tail[at], arcs.head[at], arcs.capacity[at], arcs.cost[at] = first[levels] + place[i], sink, left[i], 0
            at += 1
    network = Network(arcs.tail[:at], arcs.head[:at], arcs.capacity[:at], arcs.cost[:at], sink + 1)
    flow, shipped, phases = cheapest_flow(network, amount)
    at = cells_from
    for i in range(cells):
        if place[i] >= 0:
            for c in range(children):
                if allowed[kind[i], c]:
                    whole[i, c] += flow[at]
                    at += 1
    return Rounded(whole, amount - shipped if at == sinks_from else amount, phases)
