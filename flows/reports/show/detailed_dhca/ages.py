"""Sex by age: pyramids, and the differences of two groups in the ages that both tables have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flows.reports.show.detailed_dhca.noise import margin_of_cells, margin_of_difference
from flows.reports.show.detailed_dhca.release import SEXES, Cell, Published
from flows.reports.show.detailed_dhca.view_models import AgeRow, DifferenceRow, Pyramid
from tasks.detailed_dhca.details import AGES, DETAILS, LAST_AGE
from tasks.detailed_dhca.report import SHAPES, age_label
from tasks.pages import end_of_axis

STARTS = {DETAILS[detail]: starts for detail, starts in AGES.items()}


def pyramid(cells: Sequence[Cell]) -> Pyramid:
    """Return the pyramid of a group's T2 rows."""
    by_age: dict[tuple[int, int], dict[int, Cell]] = {}
    sums: dict[int, Cell] = {}
    for cell in cells:
        if cell.start is None or cell.end is None:
            sums[cell.sex] = cell
        else:
            by_age.setdefault((cell.start, cell.end), {})[cell.sex] = cell
    ages = [AgeRow(age_label(*age), by_sex[1], by_sex[2]) for age, by_sex in sorted(by_age.items())]
    most = max(cell.count + cell.margin for row in ages for cell in (row.male, row.female))
    estimated = all(cell.estimate is not None for cell in sums.values())
    return Pyramid(ages, sums[1], sums[2], end_of_axis(max(most, 1)), estimated)


def common_pyramids(a: Published, b: Published, of_a: Sequence[Cell], of_b: Sequence[Cell]) -> list[Pyramid]:
    """Return the pyramids of two groups in the ages that both tables have, with one axis for both."""
    if not of_a or not of_b:
        return []
    ages = _ages(min(a.shape, b.shape, key=SHAPES.index))
    pyramids = [pyramid(_summed(one, cells, ages)) for one, cells in ((a, of_a), (b, of_b))]
    top = max(pyramid.top for pyramid in pyramids)
    return [replace(pyramid, top=top) for pyramid in pyramids]


def _summed(group: Published, cells: Sequence[Cell], ages: Sequence[tuple[int, int]]) -> list[Cell]:
    """Return a table in coarser ages: each sum of cells with the margin of the sum."""
    found = [replace(cell, estimate=None, estimate_margin=None) for cell in cells if cell.start is None]
    for start, end in ages:
        for sex in SEXES:
            count, number = _between(cells, sex, start, end)
            found.append(Cell(start, end, sex, count, margin_of_cells([(group.noise.law, number)])))
    return found


def _ages(shape: str) -> list[tuple[int, int]]:
    """Return the age ranges of a table's shape."""
    starts = STARTS[shape]
    return list(zip(starts, [*(one - 1 for one in starts[1:]), LAST_AGE], strict=True))


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
    rows = []
    for start, end in [(0, LAST_AGE), *_ages(shape)]:
        for sex in SEXES:
            (one, cells), (other, more) = (_between(cells, sex, start, end) for cells in (of_a, of_b))
            margin = 0 if same else margin_of_cells([(a.noise.law, cells), (b.noise.law, more)])
            label = "all ages" if (start, end) == (0, LAST_AGE) else age_label(start, end)
            rows.append(DifferenceRow(label, SEXES[sex], one, other, one - other, margin))
    return rows


def _between(cells: Sequence[Cell], sex: int, start: int, end: int) -> tuple[int, int]:
    """Return the sum of a sex's cells in an age range, and their number; for all ages the published sum."""
    inside = [cell for cell in cells if cell.sex == sex and cell.start is not None and start <= cell.start <= end]
    if (start, end) == (0, LAST_AGE):
        total = next(cell for cell in cells if cell.sex == sex and cell.start is None)
        return total.count, len(inside)
    return sum(cell.count for cell in inside), len(inside)
