"""Laws of noise as a release states them, and margins of sums by them, at the confidence of an answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from flows.reports.show.confidence import confidence
from privacy.noise.exact import parse_exact
from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.margins import margin_of_error, margin_of_sum
from privacy.noise.sampler import check_law


def read_law(entry: Mapping[str, Any]) -> Law:
    """Return the law of an entry `law`, with its parameter. Raises ValueError for one that nobody could draw."""
    gaussian = entry["law"] == "discrete Gaussian"
    law: Law = (
        DiscreteGaussian(parse_exact(entry["sigma_squared"]))
        if gaussian
        else TwoSidedGeometric(parse_exact(entry["scale"]))
    )
    check_law(law)
    return law


def margin_of_cells(cells: Iterable[tuple[Law, int]]) -> int:
    """Return the margin, at the confidence of this answer, of a sum or difference of cells (law, number of cells)."""
    together: defaultdict[Law, int] = defaultdict(int)
    for law, number in cells:
        together[law] += number
    return margin_of_sum(together, confidence().alpha)


def most_cells(law: Law, margin: int) -> int:
    """Return the most draws whose sum has at most this 95% margin; 0 where one draw has a larger one."""
    least, most = 0, 1
    while margin_of_error(law, most) <= margin:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if margin_of_error(law, middle) <= margin else (least, middle)
    return least
