"""The class of a declaration's constraints on a child, which decides what solves it.

    A   counts of one partition, and the whole
    B   counts of several partitions, of whose parts any two are nested or disjoint
    C   else

Rows of the parent and a laminar family of each child make a network: its rounding is a minimum-cost flow. Counts that
only close parts (none is least, most or equal) bound no sum, so they may cross and leave the network as it is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from spine.declaration.declaration import Declaration, first_crossing

OWN, FLOW, GENERAL = "own kernel", "minimum-cost flow", "HiGHS"


class Class(NamedTuple):
    """kind: A, B or C. why: a sentence."""

    kind: Literal["A", "B", "C"]
    why: str


def classify(declaration: Declaration) -> Class:
    """Return the class of the constraints that a declaration puts on every child."""
    form, product, partitions = declaration.form, declaration.product, declaration.form.partitions
    if len(partitions) <= 1:
        return Class(
            "A", f"one partition: counts of {partitions[0]}, and the whole" if partitions else "the whole alone"
        )
    pair = first_crossing(product, partitions)
    if pair is None:
        return Class("B", f"any two parts of {', '.join(partitions)} are nested or disjoint")
    at = np.unravel_index(pair[2], product.shape)
    cell = ", ".join(f"{axis.name} {axis.labels[int(own)]}" for axis, own in zip(product.axes, at, strict=True))
    where = f"of their parts around the cell ({cell}) neither holds the other"
    if bound := first_crossing(product, form.binding):
        return Class("C", f"counts of {bound[0]} and {bound[1]} cross: {where}")
    return Class("C", f"counts of {pair[0]} and {pair[1]} cross: {where}; one of them only closes parts that count 0")
