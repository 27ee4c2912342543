"""Sets of attributes by name, and the property that A-attribute loss must have: it does not fall as A grows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import permutations
from typing import TypeVar

K = TypeVar("K")


def attributes_of(names: Iterable[str], attributes: Collection[str]) -> frozenset[str]:
    """Return the attributes with these names, ignoring case. Raises ValueError for an unknown name."""
    known = {attribute.casefold(): attribute for attribute in attributes}
    chosen = set()
    for name in names:
        if name.casefold() not in known:
            raise ValueError(f"there is no attribute {name!r}: choose from {', '.join(attributes)}")
        chosen.add(known[name.casefold()])
    return frozenset(chosen)


def check_monotone(attributes: Mapping[K, frozenset[str]], losses: Mapping[K, Fraction]) -> list[tuple[K, K]]:
    """Return the pairs of keys with attributes A < B that contradict loss(A) <= loss(B), which every loss obeys."""
    return [
        (small, large)
        for small, large in permutations(losses, 2)
        if attributes[small] < attributes[large] and losses[small] > losses[large]
    ]
