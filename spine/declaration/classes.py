"""The class of a declaration's constraints on a child, which decides what its estimation has to solve.

    A   counts of one partition, and the whole
    B   counts of several partitions: any two parts that are bounded are nested or disjoint

Rows of the parent and a laminar family of each child make a network: its rounding is a minimum-cost flow. Counts that
only close parts (without least, most or equal) bound no sum, so they may cross and leave the network as it is. Bounds
that cross are refused (`read_declaration`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from spine.declaration.declaration import Declaration, first_crossing


class Class(NamedTuple):
    """kind: A or B. why: a sentence."""

    kind: Literal["A", "B"]
    why: str


def classify(declaration: Declaration) -> Class:
    """Return the class of the constraints that a declaration puts on every child."""
    product, partitions = declaration.product, declaration.form.partitions
    if len(partitions) <= 1:
        return Class(
            "A", f"one partition: counts of {partitions[0]}, and the whole" if partitions else "the whole alone"
        )
    if pair := first_crossing(product, partitions):
        crossing = f"counts of {pair.one} and {pair.other} cross: {pair.where(product)}"
        return Class("B", f"{crossing}; one of them only closes parts that count 0")
    return Class("B", f"any two parts of {', '.join(partitions)} are nested or disjoint")
