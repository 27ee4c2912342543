"""Minimum-cost flow by the primal-dual method: integral by construction, exact, and the same on every machine.

Node potentials keep the reduced costs of all arcs with capacity non-negative. A phase finds shortest distances to the
sink (Dijkstra), adds them to the potentials, and ships along arcs of reduced cost 0 until no path remains (depth-first
search with current arcs). Small integer costs have few distinct distances, and so need few phases.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from spine.compiled import compiled
from spine.geography import IntArray

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]  # 8 to 64 bits: networks are large

FAR = 1 << 62


class Network(NamedTuple):
    """Arcs between nodes numbered so that every arc goes upwards: source 0, sink last. Parallel arcs are allowed.

    tail, head, capacity, cost: (arcs,). nodes: their number.
    """

    tail: Ints
    head: Ints
    capacity: Ints
    cost: Ints
    nodes: int


class Residual(NamedTuple):
    """Arc 2e is arc e, arc 2e + 1 its reverse. first_arc: (nodes + 1,) into `arcs`, those that leave a node."""

    first_arc: Ints
    arcs: Ints
    to: Ints
    capacity: Ints
    potential: Ints


@compiled
def residual_of(network: Network) -> Residual:
    """Return the network without flow. Potentials are distances from the source, by one sweep over the nodes."""
    arcs = len(network.tail)
    first_arc = np.zeros(network.nodes + 1, np.int64)
    to, capacity = np.empty(2 * arcs, np.int32), np.zeros(2 * arcs, np.int32)
    for e in range(arcs):
        to[2 * e], to[2 * e + 1] = network.head[e], network.tail[e]
        capacity[2 * e] = network.capacity[e]
        first_arc[network.tail[e] + 1] += 1
        first_arc[network.head[e] + 1] += 1
    at, leaving = np.zeros(network.nodes, np.int64), np.empty(2 * arcs, np.int32)
    for u in range(network.nodes):
        at[u] = first_arc[u]
        first_arc[u + 1] += first_arc[u]
    for e in range(arcs):
        u, w = network.tail[e], network.head[e]
        leaving[at[u]] = 2 * e
        at[u] += 1
        leaving[at[w]] = 2 * e + 1
        at[w] += 1
    potential = np.full(network.nodes, FAR)
    potential[0] = 0
    for u in range(network.nodes):
        if potential[u] < FAR:
            for k in range(first_arc[u], first_arc[u + 1]):
                e = leaving[k]
                if e % 2 == 0 and capacity[e] > 0:
                    potential[to[e]] = min(potential[to[e]], potential[u] + network.cost[e // 2])
    return Residual(first_arc, leaving, to, capacity, potential)


@compiled
def shortest(residual: Residual, cost: Ints, distance: Ints, stack: Ints) -> bool:
    """Add the distances from the source, at most the sink's, to the potentials; False if it is unreachable.

    Nodes at the current distance wait on a stack (most useful arcs cost 0), farther ones in a heap. A heap entry is
    skipped if its node was reached on a shorter path.
    """
    nodes, potential = len(distance), residual.potential
    distance[:] = FAR
    distance[0] = 0
    heap: list[tuple[Any, Any]] = [(0, 0)]  # distances and nodes
    waiting, now = 0, -1
    while distance[nodes - 1] > now and (waiting or len(heap)):
        if waiting:
            waiting -= 1
            u = stack[waiting]
        else:
            now, u = heappop(heap)
            if distance[u] < now:
                continue
        for k in range(residual.first_arc[u], residual.first_arc[u + 1]):
            e = residual.arcs[k]
            if residual.capacity[e] > 0:
                w = residual.to[e]
                length = cost[e // 2] if e % 2 == 0 else -cost[e // 2]
                there = now + length + potential[u] - potential[w]
                if there < distance[w]:
                    distance[w] = there
                    if there == now:
                        stack[waiting] = w
                        waiting += 1
                    else:
                        heappush(heap, (there, np.int64(w)))
    reach = distance[nodes - 1]
    if reach == FAR:
        return False
    for u in range(nodes):
        potential[u] += min(distance[u], reach)
    return True


@compiled
def ship(residual: Residual, cost: Ints, amount: int, current: Ints, path: Ints, state: Ints) -> int:
    """Ship along arcs of reduced cost 0 until no path remains or `amount` is shipped; return the amount shipped."""
    nodes, shipped, depth, u = len(state), 0, 0, 0
    potential = residual.potential
    for w in range(nodes):
        current[w], state[w] = residual.first_arc[w], 0  # state 0: untouched, 1: on the path, 2: dead end
    state[0] = 1
    while shipped < amount:
        if u == nodes - 1:
            most = amount - shipped
            for k in range(depth):
                most = min(most, residual.capacity[path[k]])
            back = depth
            for k in range(depth - 1, -1, -1):
                residual.capacity[path[k]] -= most
                residual.capacity[path[k] ^ 1] += most
                if residual.capacity[path[k]] == 0:
                    back = k
            shipped += most
            while depth > back:
                depth -= 1
                state[residual.to[path[depth]]] = 0
                u = residual.to[path[depth] ^ 1]
            continue
        moved = False
        while current[u] < residual.first_arc[u + 1]:
            e = residual.arcs[current[u]]
            w = residual.to[e]
            if residual.capacity[e] > 0 and state[w] == 0:
                length = cost[e // 2] if e % 2 == 0 else -cost[e // 2]
                if length + potential[u] == potential[w]:
                    path[depth] = e
                    depth += 1
                    state[w] = 1
                    u, moved = w, True
                    break
            current[u] += 1
        if not moved:
            if u == 0:
                break
            state[u] = 2
            depth -= 1
            u = residual.to[path[depth] ^ 1]
            current[u] += 1
    return shipped


@compiled
def cheapest_flow(network: Network, amount: int) -> tuple[IntArray, int]:
    """Return the cheapest (arcs,) flow of `amount` from source to sink, and the amount shipped.

    Less than `amount` is shipped only if the network cannot carry it.
    """
    residual = residual_of(network)
    nodes = network.nodes
    distance, stack, current = np.empty(nodes, np.int64), np.empty(nodes, np.int32), np.empty(nodes, np.int64)
    path, state = np.empty(nodes + 1, np.int32), np.empty(nodes, np.int8)
    shipped = 0
    while shipped < amount:
        if not shortest(residual, network.cost, distance, stack):
            break
        shipped += ship(residual, network.cost, amount - shipped, current, path, state)
    return residual.capacity[1::2].astype(np.int64), shipped
