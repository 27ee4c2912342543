"""The class of a declaration's constraints on a child, which decides what solves it.

    A   counts of one partition, and the whole
    B   counts of several partitions, of whose parts any two are nested or disjoint
    C   else

Rows of the parent and a laminar family of each child make a network: its rounding is a minimum-cost flow.
"""

from __future__ import annotations

from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from spine.declaration.declaration import Declaration
from spine.top_down.histogram import Product
from spine.top_down.queries import query_group

OWN, FLOW = "own kernel", "minimum-cost flow"


class Class(NamedTuple):
    """kind: A, B or C. why: a sentence. refused: why it cannot be solved, empty where it can."""

    kind: Literal["A", "B", "C"]
    why: str
    refused: str = ""


def classify(declaration: Declaration) -> Class:
    """Return the class of the constraints that a declaration puts on every child."""
    form, product = declaration.form, declaration.product
    partitions = list(dict.fromkeys(count.partition for count in form.counts))
    limited = [count.partition for count in form.counts if any(isinstance(most, int) for most in count.most)]
    if len(partitions) < len(form.counts):
        return Class("C", f"{partitions[0]} has two sets of counts", "counts: give each partition's counts once")
    if len(partitions) <= 1:
        what = f"counts of {partitions[0]}, and the whole" if partitions else "the whole alone"
        refused = ""
        if limited and not form.counts_are_totals:
            refused = f"counts: a limit on the records of each counted of {limited[0]} is not solved: leave `most` out"
        return Class("A", f"one partition: {what}", refused)
    names = ", ".join(partitions)
    pair = first_crossing(product, partitions)
    remedy = "; declare the counts of one of them"
    if pair is None:
        why = f"any two parts of {names} are nested or disjoint"
        return Class("B", why, f"counts: bounds of two partitions, {names}, are not solved{remedy}")
    why = f"counts of {pair[0]} and {pair[1]} cross: of their parts around the cell ({pair[2]}) neither holds the other"
    return Class("C", why, f"counts: {why}{remedy}")


def first_crossing(product: Product, partitions: list[str]) -> tuple[str, str, str] | None:
    """Return two partitions with parts that cross, and a cell that is in both; None where all parts are laminar."""
    for one, other in combinations(partitions, 2):
        fine, coarse = query_group(product, one), query_group(product, other)
        pairs = np.unique((fine.coordinate * coarse.width + coarse.coordinate)[product.possible])
        meets = np.bincount(pairs // coarse.width, minlength=fine.width), np.bincount(pairs % coarse.width)
        crossing = (meets[0][pairs // coarse.width] > 1) & (meets[1][pairs % coarse.width] > 1)
        if crossing.any():
            first = pairs[np.flatnonzero(crossing)[0]]
            inside = (fine.coordinate * coarse.width + coarse.coordinate == first) & product.possible
            return one, other, cell_name(product, int(np.flatnonzero(inside)[0]))
    return None


def cell_name(product: Product, cell: int) -> str:
    """Return the labels of a cell, by axis."""
    at = np.unravel_index(cell, product.shape)
    return ", ".join(f"{axis.name} {axis.labels[int(own)]}" for axis, own in zip(product.axes, at, strict=True))
