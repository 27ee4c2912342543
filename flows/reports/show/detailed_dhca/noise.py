"""The noise in published counts: its law, and which counts share it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from flows.reports.show.laws import margin_of_cells
from privacy.noise.laws import Law

Source = tuple[object, ...]


@dataclass(frozen=True)
class CountNoise:
    """The noise in one published total.

    Attributes
    ----------
    source : tuple
        Counts with the same source have the same noise, others independent noise.
    law : Law or None
        The law of each cell that was measured; None in a release without noise.
    cells : int
        The cells that the count sums.
    """

    source: Source
    law: Law | None
    cells: int


def margin_of_difference(one: CountNoise, *others: CountNoise) -> int:
    """Return the margin of a count less the sum of others.

    Noise that both sides share cancels; the rest is independent.
    """
    times: Counter[Source] = Counter({one.source: 1})
    times.subtract(Counter(other.source for other in others))
    by_source = {noise.source: noise for noise in (one, *others)}
    if max(map(abs, times.values())) > 1:
        raise ValueError("a source is twice on one side of a difference")
    return margin_of_cells((by_source[source].law, by_source[source].cells) for source, sign in times.items() if sign)
