"""Pass 0: the children's totals, exactly.

min sum_c s_c (T_c - y_c)^2, where the totals are those of some division of the parent among its children. Whether
totals can be divided depends on the parent only through its count by type of living quarters: every set A of types
needs T(children that allow some type of A) >= P(A), besides T >= 0 and sum T = P. These are the bases of a supermodular
function, so Groenevelt's decomposition finds the minimum: solve without the sets, split along the most violated one,
solve both halves. With 8 types there are 256 sets, so all are checked.
"""

from __future__ import annotations

import numpy as np

from spine.compiled import compiled
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.least_squares import STEP, Misfit, Parent, Sums, inverse_row_sums, minimum

TOLERANCE = 1e-12  # relative to a total: a smaller violation of a set is a rounding error
DYKSTRA_ROUNDS = 10_000
AGREED = 1e-9  # persons by which both sets' projections may differ at the end


@compiled
def totals(y: FloatArray, s: FloatArray, allowed: BoolArray, lower_bound: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the (children,) totals nearest to y with weights s.

    allowed, lower_bound: (types, children). counts: (types,) of the parent.
    """
    n_types, children = allowed.shape
    bound, supply = np.zeros(children), counts.copy()
    for t in range(n_types):
        for c in range(children):
            bound[c] += lower_bound[t, c]
            supply[t] -= lower_bound[t, c]
    mask = np.zeros(children, np.int64)
    for t in range(n_types):
        for c in range(children):
            if allowed[t, c] and supply[t] > 0.0:
                mask[c] |= 1 << t
    result = np.zeros(children)
    region = np.zeros(children, np.int64)  # region of each child; regions[r] = its types
    regions = [(1 << n_types) - 1]
    at = 0
    while at < len(regions):
        members, found = np.empty(children, np.int64), 0
        for c in range(children):
            if region[c] == at:
                members[found] = c
                found += 1
        members, types = members[:found], int(regions[at])
        at += 1
        total = supply_of(supply, types)
        if total <= 0.0 or found == 0:
            continue
        rise = total
        width = 0.0
        for m in members:
            rise -= y[m] - bound[m]
            width += 1.0 / s[m]
        for m in members:
            result[m] = y[m] - bound[m] + rise / width / s[m]
        worst, most = most_violated(result, mask, members, supply, types)
        if most > TOLERANCE * (1.0 + total):
            regions.append(worst)
            regions.append(types & ~worst)
            for m in members:
                inside = (mask[m] & worst) != 0 or result[m] < 0.0
                region[m] = len(regions) - 2 if inside else len(regions) - 1
                result[m] = 0.0
    for c in range(children):
        result[c] = bound[c] + max(result[c], 0.0)
    return result


@compiled
def supply_of(supply: FloatArray, types: int) -> float:
    """Return the supply of a set of types (bits)."""
    total = 0.0
    for t in range(len(supply)):
        if (types >> t) & 1:
            total += supply[t]
    return total


@compiled
def most_violated(
    totals: FloatArray, mask: IntArray, members: IntArray, supply: FloatArray, types: int
) -> tuple[int, float]:
    """Return the set of types (bits, perhaps empty) with the largest violation, and that violation."""
    worst, most = 0, -np.inf
    subset = types
    while True:
        short = supply_of(supply, subset)
        for c in members:
            if mask[c] & subset or totals[c] < 0.0:
                short -= totals[c]
        if short > most:
            worst, most = subset, short
        if subset == 0:
            break
        subset = (subset - 1) & types
    return worst, most


def totals_in_groups(
    y: FloatArray,
    s: FloatArray,
    allowed: BoolArray,
    lower_bound: FloatArray,
    counts: FloatArray,
    group: IntArray,
    group_totals: IntArray,
) -> FloatArray:
    """Return `totals` where each group of children sums to its declared total (states, under the nation).

    Dykstra's alternating projections onto two sets, each exact; the first round is nearly always the last.
    """
    give = np.where((allowed & (counts > 0)[:, None]).any(axis=0), 1 / s, 0.0)
    width = np.bincount(group, give)

    def to_groups(point: FloatArray) -> FloatArray:
        missing = group_totals - np.bincount(group, point)
        return point + (missing / np.where(width > 0, width, 1.0))[group] * give

    point, correction = to_groups(y), np.zeros_like(y)
    for _ in range(DYKSTRA_ROUNDS):
        inside = totals(point + correction, s, allowed, lower_bound, counts)
        correction += point - inside
        following = to_groups(inside)
        if np.abs(following - inside).max() < AGREED:
            break
        point = following
    return following


def totals_in_sets(y: FloatArray, s: FloatArray, parent: Parent, counts: FloatArray) -> FloatArray:
    """Return the (children,) totals nearest to y with weights s, with bounded sets of types or many types.

    It solves the least squares of the cells, over the parent's counts by type. counts: (types,) of the parent.
    """
    n, children = parent.allowed.shape
    at = np.arange(n)
    up, none = np.full((n, 1), n), np.zeros(0, np.int64)
    sums = Sums(np.append(at, n), np.append(at * 0, 1), up, none, none)
    w, wanted = np.stack([s * 0.0, s]), np.concatenate([np.zeros((n, children)), y[None]])
    reduced = parent._replace(cells=at, quarters_type=at, counts=counts.astype(np.int64))
    a = inverse_row_sums(sums, w, parent.allowed, at)
    objective = Misfit(np.zeros(wanted.shape), sums, w, wanted)
    found: FloatArray = minimum(objective, a, np.zeros((n, children)), reduced, False, STEP).x.sum(axis=0)
    return found
