"""Sex by age: pyramids, and the differences of two groups in the ages that both tables have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import hypot

from flows.reports.show.detailed_dhca.release import Published
from flows.reports.show.detailed_dhca.view_models import DifferenceRow
from flows.reports.show.laws import margin_of_cells, margin_of_difference
from tasks.detailed_dhca.details import AGE_RANGES, DETAILS, SEXES, SHAPES
from tasks.detailed_dhca.person import LAST_AGE
from tasks.detailed_dhca.pyramid import Cell, Pyramid, Share, pyramid


def common_pyramids(a: Published, b: Published, of_a: Sequence[Cell], of_b: Sequence[Cell]) -> list[Pyramid]:
    """Return the pyramids of two groups in the ages that both tables have."""
    if not of_a or not of_b:
        return []
    ages = AGE_RANGES[DETAILS.index(min(a.shape, b.shape, key=SHAPES.index))]
    return [pyramid(_summed(one, cells, ages)) for one, cells in ((a, of_a), (b, of_b))]


def _summed(group: Published, cells: Sequence[Cell], ages: Sequence[tuple[int, int]]) -> list[Cell]:
    """Return a table in coarser ages: each sum of cells with the margin of the sum."""
    found = [replace(cell, estimate=None, estimate_margin=None) for cell in cells if cell.start is None]
    for start, end in ages:
        for sex in SEXES:
            count, number = _between(cells, sex, start, end)
            found.append(Cell(start, end, sex, count, margin_of_cells([(group.noise.law, number)])))
    return found


def total_difference(a: Published | None, b: Published | None) -> DifferenceRow | None:
    """Return the difference of two published totals; None where one is not published."""
    if a is None or b is None:
        return None
    margin = margin_of_difference(a.noise, b.noise) if a.noise.source != b.noise.source else 0
    return DifferenceRow("all ages", "both", a.count, b.count, a.count - b.count, margin)


def differences(a: Published, b: Published, of_a: Sequence[Cell], of_b: Sequence[Cell]) -> list[DifferenceRow]:
    """Return the differences by sex, and by sex and age in the coarser of the two tables' ages."""
    if not of_a or not of_b:
        return []
    same = a.noise.source == b.noise.source
    shape = min(a.shape, b.shape, key=SHAPES.index)
    pair = common_pyramids(a, b, of_a, of_b)
    rows = []
    for (start, end), *both in zip(
        [(0, LAST_AGE), *AGE_RANGES[DETAILS.index(shape)]], *(one.rows() for one in pair), strict=True
    ):
        for sex in SEXES:
            (one, cells), (other, more) = (_between(cells, sex, start, end) for cells in (of_a, of_b))
            margin = 0 if same else margin_of_cells([(a.noise.law, cells), (b.noise.law, more)])
            in_a, in_b = (table.share(row.sides[SEXES[sex]]) for table, row in zip(pair, both, strict=True))
            shares = _share_difference(in_a, in_b, same=same)
            rows.append(DifferenceRow(both[0].label, SEXES[sex], one, other, one - other, margin, *shares))
    return rows


def _share_difference(a: Share | None, b: Share | None, *, same: bool) -> tuple[float | None, ...]:
    """Return two shares, their difference and its margin; Nones where a group has no positive total."""
    if a is None or b is None:
        return (None, None, None, None)
    return a.value, b.value, a.value - b.value, 0.0 if same else hypot(a.margin, b.margin)


def _between(cells: Sequence[Cell], sex: int, start: int, end: int) -> tuple[int, int]:
    """Return the sum of a sex's cells in an age range, and their number; for all ages the published sum."""
    inside = [cell for cell in cells if cell.sex == sex and cell.start is not None and start <= cell.start <= end]
    if (start, end) == (0, LAST_AGE):
        total = next(cell for cell in cells if cell.sex == sex and cell.start is None)
        return total.count, len(inside)
    return sum(cell.count for cell in inside), len(inside)
