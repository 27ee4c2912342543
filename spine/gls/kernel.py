"""The least squares of one parent by its children's information: the sum over children of x'P_c x/2 - h_c'x.

The iteration is the program's (`top_down.least_squares`): only the product with the Hessian and its majorizer are
others, D = the row sums of |P_c| over the parent's cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spine.compiled import compiled, implements
from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.information import sign
from spine.top_down.least_squares import Parent, Solution, gradient, minimum


class TreeMisfit(NamedTuple):
    """The children's x'Px/2 - h'x.

    table: (cells, children), see `gradient`. precision: (children, components, types, types), types being those of the
    parent's cells. linear: (cells, children) h. place: (cells,) of each cell in (types, signs, races). x, image, mean:
    scratch, (types, signs, races) twice, and (types, signs).
    """

    table: FloatArray
    precision: FloatArray
    linear: FloatArray
    place: IntArray
    x: FloatArray
    image: FloatArray
    mean: FloatArray


@implements(gradient, TreeMisfit)
def tree_gradient(objective: TreeMisfit, out: FloatArray) -> None:
    """Write P x - h for every child: by component, in sums and differences, and only the parent's cells of it."""
    table, precision, linear, place = objective.table, objective.precision, objective.linear, objective.place
    x, image, mean = objective.x, objective.image, objective.mean
    types, signs, races = x.shape
    cells, residual = len(place), precision.shape[1] - 1
    flat, flat_image = x.reshape(-1), image.reshape(-1)
    for c in range(len(precision)):
        flat[:] = 0.0
        flat_image[:] = 0.0
        for i in range(cells):
            flat[place[i]] = table[i, c]
        sign(x)
        for t in range(types):
            mean[t] = 0.0
            for r in range(races):
                for s in range(signs):
                    mean[t, s] += x[t, s, r]
            for s in range(signs):
                mean[t, s] /= races
        for t in range(types):
            for u in range(types):
                if precision[c, residual, t, t] > 0.0 and precision[c, residual, u, u] > 0.0:
                    for s in range(signs):
                        rest = precision[c, 2 * s + 1, t, u]
                        shift = (precision[c, 2 * s, t, u] - rest) * mean[u, s]
                        source, target = x[u, s], image[t, s]
                        for r in range(races):
                            target[r] += rest * source[r] + shift
        sign(image)
        for i in range(cells):
            out[i, c] = flat_image[place[i]] - linear[i, c]


@compiled
def coordinates(cells: IntArray, axes: IntArray) -> IntArray:
    """Return the (axes, cells) coordinates of cells on the axes after the types'; axes: their sizes."""
    found = np.empty((len(axes), len(cells)), np.int64)
    for i in range(len(cells)):
        left = cells[i]
        for axis in range(len(axes) - 1, -1, -1):
            found[axis, i] = left % axes[axis]
            left //= axes[axis]
    return found


@compiled
def inverse_row_sums(
    between: FloatArray, cells: IntArray, axes: IntArray, quarters_type: IntArray, allowed: BoolArray
) -> FloatArray:
    """Return (cells, children) 1 / D, D = row sums of |P| over the parent's cells; 0 where the cell is not allowed.

    between: (children, patterns, types, types) the entries of P, see `Grid.patterns`. axes: as for `coordinates`.
    """
    n, (types, children), patterns = len(cells), allowed.shape, between.shape[1]
    at = coordinates(cells, axes)
    inverse, count, agree = np.zeros((n, children)), np.zeros((types, patterns)), np.empty(n, np.int64)
    for i in range(n):
        agree[:] = 0
        for axis in range(len(axes)):
            for j in range(n):
                agree[j] = 2 * agree[j] + (at[axis, j] == at[axis, i])
        count[:] = 0.0
        for j in range(n):
            count[quarters_type[j], agree[j]] += 1.0
        for c in range(children):
            if allowed[quarters_type[i], c]:
                total = 0.0
                for t in range(types):
                    for e in range(patterns):
                        total += count[t, e] * abs(between[c, e, quarters_type[i], t])
                inverse[i, c] = 1.0 / total
    return inverse


@compiled
def least_squares(
    parent: Parent,
    axes: IntArray,
    precision: FloatArray,
    between: FloatArray,
    linear: FloatArray,
    initial: FloatArray,
    careful: bool,
    stop: float,
) -> Solution:
    """Divide a parent among its children by their information.

    axes: as for `coordinates`. precision, linear: as `TreeMisfit` has them. between: as for `inverse_row_sums`.
    initial: (cells, children) where to start.
    """
    races, signs = axes[-1], 1
    for size in axes[:-1]:
        signs *= size
    types = precision.shape[2]
    place = np.empty(len(parent.cells), np.int64)
    for i in range(len(place)):
        place[i] = parent.quarters_type[i] * signs * races + parent.cells[i] % (signs * races)
    x, image, mean = np.empty((types, signs, races)), np.empty((types, signs, races)), np.empty((types, signs))
    objective = TreeMisfit(np.empty(linear.shape), precision, linear, place, x, image, mean)
    a = inverse_row_sums(between, parent.cells, axes, parent.quarters_type, parent.allowed)
    return minimum(objective, a, initial, parent, careful, stop)
