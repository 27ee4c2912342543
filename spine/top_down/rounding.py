"""Rounding: integers next to the least-squares solution, with nested sums as close to its own as possible.

    f = floor(x), b in {0, 1}, sum over children of b = the parent's remainder, facilities' lower bounds met by f + b,
    min  sum over children [ w |sum b - t| + sum over nested query groups |Q b - round(Q frac)| + v |b - round(frac)| ]

with frac = x - f, v the cells' weight, and round half to even: the production program's objective as it is executed.
Sums nest in each child, cells meet in the parent: both are laminar, so this is a minimum-cost flow  source -> (state)
-> child -> hhgq -> hhgq*hispanic -> hhgq*hispanic*cenrace -> cell -> sink  with convex piecewise linear costs, and an
integral optimum exists if x violates the parent's sums by less than one person in total (every cut is an inequality
between integers: Hoffman's theorem).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.flow import Network, cheapest_flow
from spine.top_down.least_squares import Parent

SNAP = 1e-7  # fractions below this are 0
GRID = 2.0**14  # parts of a record: equal weights and integer answers put many fractions at exactly 1/2


def on_grid(x: FloatArray) -> FloatArray:
    """Return x to the nearest part of a record: a solver's last digits then decide no tie."""
    return np.asarray(np.rint(x * GRID) / GRID)


@compiled
def floors(x: FloatArray, allowed: BoolArray, quarters_type: IntArray) -> tuple[IntArray, FloatArray]:
    """Return floor(x) and the fractions above it; an x below an integer by a rounding error counts as that."""
    cells, children = x.shape
    delta = min(1e-6, 0.1 / (cells * children))
    whole, fraction = np.zeros((cells, children), np.int64), np.zeros((cells, children))
    for i in range(cells):
        for c in range(children):
            if allowed[quarters_type[i], c]:
                whole[i, c] = int(np.floor(x[i, c] + delta))
                above = min(1.0, x[i, c] - whole[i, c])
                fraction[i, c] = above if above >= SNAP else 0.0
    return whole, fraction


@compiled
def one_arc(arcs: Network, at: int, tail: int, head: int, capacity: int, cost: int) -> int:
    """Put an arc at place `at`; return the next place."""
    arcs.tail[at], arcs.head[at], arcs.capacity[at], arcs.cost[at] = tail, head, capacity, cost
    return at + 1


@compiled
def convex_arcs(
    arcs: Network,
    at: int,
    tail: int,
    head: int,
    lower_bound: int,
    target: float,
    most: int,
    weight: int,
    reward: int,
    unit: int,
) -> int:
    """Add arcs whose flow u costs weight |u - target|, less `reward` for each of the first `lower_bound` units.

    The target is first rounded, half to even: to whole numbers, and with a larger `unit` to parts of it, in which costs
    are counted. Returns the next place.
    """
    low = int(np.rint(target)) if unit == 1 else int(np.floor(target))
    middle = weight * (unit - 2 * int(np.rint((target - low) * unit))) if unit > 1 else weight
    weight *= unit
    done = 0
    for part in range(4):  # up to `lower_bound`, up to the target, one unit more, beyond
        if part == 0:
            end, slope = min(lower_bound, low), -weight - reward
        elif part == 1:
            end, slope = low, -weight
        elif part == 2:
            end, slope = low + 1, middle
        else:
            end, slope = most, weight
        end = min(end, most)
        if part >= 2 and done < lower_bound:  # the lower bound exceeds the target
            extra = min(end, lower_bound)
            if extra > done:
                at = one_arc(arcs, at, tail, head, extra - done, slope - reward)
                done = extra
        if end > done:
            at = one_arc(arcs, at, tail, head, end - done, slope)
            done = end
    return at


class Remainder(NamedTuple):
    """The units to distribute above the integers below x.

    whole, fraction: (cells, children), from `floors`. remaining: (cells,) units of each cell. amount: their sum.
    live: (cells,) number of each cell with remaining units among such cells, -1 for others. live_cells: the number of
    live cells.
    """

    whole: IntArray
    fraction: FloatArray
    remaining: IntArray
    amount: int
    live: IntArray
    live_cells: int


@compiled
def remainder(x: FloatArray, parent: Parent) -> Remainder:
    """Phase 1: find the integers below x and the remaining units of the parent's counts."""
    cells, children = x.shape
    counts, total = parent.counts, parent.total
    whole, fraction = floors(x, parent.allowed, parent.quarters_type)
    remaining = np.zeros(cells, np.int64)
    amount, live_cells, held = 0, 0, 0
    live = np.empty(cells, np.int64)
    for i in range(cells):
        for c in range(children):
            held += whole[i, c]
            remaining[i] += 1 if len(counts) == 0 else -whole[i, c]
        if len(counts):
            remaining[i] += counts[i]
            amount += remaining[i]
        live[i] = live_cells if remaining[i] > 0 else -1
        live_cells += remaining[i] > 0
    if len(total):
        amount = total[0] - held
    return Remainder(whole, fraction, remaining, amount, live, live_cells)


class Nodes(NamedTuple):
    """The numbers of the network's nodes: source, states, children, each nested group's sums, live cells, sink.

    children: the first child's. first: (groups + 1,) the first sum's of each group, then the first cell's. sums:
    (groups,) number of sums with a live cell. number: (groups, cells) the sum of each live cell. sink: the last.
    """

    children: int
    first: IntArray
    sums: IntArray
    number: IntArray
    sink: int


@compiled
def numbered_nodes(parent: Parent, rest: Remainder) -> Nodes:
    """Phase 2: number the nodes. Only sums with a live cell have nodes, one for every child."""
    nested, live = parent.nested, rest.live
    groups, cells = nested.shape
    children = rest.whole.shape[1]
    first, sums = np.zeros(groups + 1, np.int64), np.zeros(groups, np.int64)
    number = np.zeros((groups, cells), np.int64)
    first_child = 1 + len(parent.state_totals)
    first[0] = first_child + children
    for g in range(groups):
        largest = 0
        for i in range(cells):
            largest = max(largest, nested[g, i])
        seen = np.full(largest + 1, -1)
        for i in range(cells):
            if live[i] >= 0:
                if seen[nested[g, i]] < 0:
                    seen[nested[g, i]] = sums[g]
                    sums[g] += 1
                number[g, i] = seen[nested[g, i]]
        first[g + 1] = first[g] + sums[g] * children
    return Nodes(first_child, first, sums, number, int(first[groups]) + rest.live_cells)


class Costs(NamedTuple):
    """Costs of one record: `total`, of a child's total off its target; `reward`, the discount below a lower bound.

    unit: what a distance of 1 costs; targets are rounded to 1 / unit.
    """

    total: int
    reward: int
    unit: int


@compiled
def child_arcs(arcs: Network, parent: Parent, rest: Remainder, nodes: Nodes, costs: Costs) -> int:
    """Phase 3: put the arcs from the source, or its states, to the children; return the number of arcs."""
    state, state_totals, at = parent.state, parent.state_totals, 0
    cells, children = rest.whole.shape
    for s in range(len(state_totals)):
        remaining = state_totals[s]
        for c in range(children):
            if state[c] == s:
                for i in range(cells):
                    remaining -= rest.whole[i, c]
        at = one_arc(arcs, at, 0, 1 + s, remaining, 0)
    for c in range(children):
        target, most = 0.0, 0
        for i in range(cells):
            target += rest.fraction[i, c]
            most += rest.live[i] >= 0 and parent.allowed[parent.quarters_type[i], c]
        above = 1 + state[c] if len(state_totals) else 0
        at = convex_arcs(arcs, at, above, nodes.children + c, 0, target, most, costs.total, costs.reward, costs.unit)
    return at


@compiled
def sum_arcs(arcs: Network, at: int, parent: Parent, rest: Remainder, nodes: Nodes, costs: Costs) -> int:
    """Phase 4: add the arcs from the children down their nested sums; return the number of arcs."""
    allowed, quarters_type, whole = parent.allowed, parent.quarters_type, rest.whole
    cells, children = whole.shape
    target, most, example = np.zeros(cells), np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    held = np.zeros((len(allowed) + len(parent.sets), children), np.int64)  # rows: types, then sets
    for i in range(cells):
        for c in range(children):
            held[quarters_type[i], c] += whole[i, c]
    for s in range(len(parent.sets)):
        for t in range(len(allowed)):
            for c in range(children):
                held[len(allowed) + s, c] += held[t, c] if parent.sets[s, t] else 0
    for g in range(len(nodes.sums)):
        number = nodes.number[g]
        for c in range(children):
            for k in range(nodes.sums[g]):
                target[k], most[k] = 0.0, 0
            for i in range(cells):
                if rest.live[i] >= 0 and allowed[quarters_type[i], c]:
                    k = number[i]
                    target[k] += rest.fraction[i, c]
                    most[k] += 1
                    example[k] = i
            for k in range(nodes.sums[g]):
                if most[k]:
                    i = example[k]
                    above, lower_bound, upper = nodes.children + c, 0, most[k]
                    if g == 0:
                        t = quarters_type[i]
                        lower_bound = parent.lower_bound[t, c] - held[t, c]
                    else:
                        above = nodes.first[g - 1] + nodes.number[g - 1, i] * children + c
                    if len(parent.nested_set) and parent.nested_set[g, i] >= 0:
                        s = parent.nested_set[g, i]
                        lower_bound = int(parent.low_of[s, c]) - held[len(allowed) + s, c]
                        upper = min(upper, int(parent.high_of[s, c]) - held[len(allowed) + s, c])
                    here = nodes.first[g] + k * children + c
                    lower_bound, upper = max(0, lower_bound), max(0, upper)
                    at = convex_arcs(arcs, at, above, here, lower_bound, target[k], upper, 1, costs.reward, costs.unit)
    return at


@compiled
def cell_arcs(arcs: Network, at: int, parent: Parent, rest: Remainder, nodes: Nodes, unit: int) -> int:
    """Phase 5: add the arcs from the finest sums to the cells and on to the sink; return the number of arcs."""
    allowed, quarters_type, groups = parent.allowed, parent.quarters_type, len(nodes.sums)
    cells, children = rest.whole.shape
    for i in range(cells):
        if rest.live[i] >= 0:
            for c in range(children):
                if allowed[quarters_type[i], c]:
                    above = nodes.children + c
                    if groups:
                        above = nodes.first[groups - 1] + nodes.number[groups - 1, i] * children + c
                    cost = -parent.cell_weight if rest.fraction[i, c] > 0.5 else parent.cell_weight
                    if unit > 1:
                        cost = parent.cell_weight * (unit - 2 * int(np.rint(rest.fraction[i, c] * unit)))
                    at = one_arc(arcs, at, above, nodes.first[groups] + rest.live[i], 1, cost)
    for i in range(cells):
        if rest.live[i] >= 0:
            at = one_arc(arcs, at, nodes.first[groups] + rest.live[i], nodes.sink, rest.remaining[i], 0)
    return at


@compiled
def rounded(x: FloatArray, parent: Parent, total_first: bool) -> tuple[IntArray, int]:
    """Round x, (cells, children): phases 1 to 5 make the network; its cheapest flow is added to the integers below x.

    Returns (cells, children) integers, and the number of units without a path (0 if x is feasible). total_first: a
    child's total outweighs all other costs.
    """
    return distributed(remainder(x, parent), parent, total_first, 1)


@compiled
def distributed(rest: Remainder, parent: Parent, total_first: bool, unit: int) -> tuple[IntArray, int]:
    """Distribute the remaining units of `rounded`; unit: as in `Costs`, 1 for the program's costs."""
    if rest.amount <= 0:
        return rest.whole, -rest.amount
    nodes = numbered_nodes(parent, rest)
    (cells, children), groups = rest.whole.shape, len(nodes.sums)
    most_arcs = len(parent.state_totals) + rest.live_cells + children * (rest.live_cells + 5)
    for g in range(groups):
        most_arcs += 5 * children * nodes.sums[g]
    arcs = Network(
        np.empty(most_arcs, np.int32),
        np.empty(most_arcs, np.int32),
        np.empty(most_arcs, np.int32),
        np.empty(most_arcs, np.int64),
        nodes.sink + 1,
    )
    total_weight = 1 + 2 * (groups + parent.cell_weight) * rest.amount if total_first else 1
    costs = Costs(total_weight, (total_weight + groups + parent.cell_weight + 1) * 1000 * unit, unit)
    at = child_arcs(arcs, parent, rest, nodes, costs)
    cells_from = sum_arcs(arcs, at, parent, rest, nodes, costs)
    end = cell_arcs(arcs, cells_from, parent, rest, nodes, unit)
    network = Network(arcs.tail[:end], arcs.head[:end], arcs.capacity[:end], arcs.cost[:end], arcs.nodes)
    flow, shipped = cheapest_flow(network, rest.amount)
    at, whole = cells_from, rest.whole
    for i in range(cells):
        if rest.live[i] >= 0:
            for c in range(children):
                if parent.allowed[parent.quarters_type[i], c]:
                    whole[i, c] += flow[at]
                    at += 1
    return whole, rest.amount - shipped


def compile_rounding() -> None:
    """Compile `rounded` for the types of estimates. It shares no kernel with the least squares, compiled elsewhere."""
    one = np.zeros((1, 1), np.int64)
    rounded(np.zeros((1, 1)), Parent(one[0], one[0], one[0], one == 0, one, one), True)
