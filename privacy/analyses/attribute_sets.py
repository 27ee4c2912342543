"""Sets of attributes by name, and the one property that every A-attribute loss has in A."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import permutations
from typing import TypeVar

K = TypeVar("K")


def attributes_of(names: Iterable[str], attributes: Collection[str]) -> frozenset[str]:
    """The attributes with these names, in whatever case. Raises ValueError for a name that none has."""
    known = {attribute.casefold(): attribute for attribute in attributes}
    chosen = set()
    for name in names:
        if name.casefold() not in known:
            raise ValueError(f"unknown attribute {name!r}; one of {', '.join(attributes)}")
        chosen.add(known[name.casefold()])
    return frozenset(chosen)


def check_monotone(attributes: Mapping[K, frozenset[str]], losses: Mapping[K, Fraction]) -> list[tuple[K, K]]:
    """Pairs of keys with attributes A < B whose losses contradict loss(A) <= loss(B), which every loss must obey."""
    return [
        (small, large)
        for small, large in permutations(losses, 2)
        if attributes[small] < attributes[large] and losses[small] > losses[large]
    ]
