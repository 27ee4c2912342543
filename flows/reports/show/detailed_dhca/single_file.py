"""The groups of a release, or of a state of it, as the data of one page: counts, cells by sex and age, margins."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from flows.reports.show.confidence import confidence
from flows.reports.show.detailed_dhca.caveats import caveat
from flows.reports.show.detailed_dhca.presenters import present_iteration, present_region
from flows.reports.show.detailed_dhca.release import CELLS, Published, Release
from flows.reports.show.detailed_dhca.search import index_of
from flows.reports.show.geography import Region
from flows.reports.show.laws import margin_of_cells
from tasks.detailed_dhca.details import AGE_RANGES, DETAILS, SEXES, TABLE_NAMES, age_label
from tasks.detailed_dhca.pyramid import SIDES
from tasks.lifecycle.errors import Refused
from tasks.population_groups.levels import Level

MOST_GROUPS = 500_000


def single_file_data(release: Release) -> dict[str, Any]:
    """Return the data of one page.

    regions: [type, id, name, what it is in]; iterations: [code, name, level]; groups: of each region [iteration,
    count, place of its margins, cells or 0], with an estimate also [estimate less count, place of its margins, the
    same of each cell]; cells: males of all ages and of each, then females. margins: of a total, a sex's sum and a cell,
    and the table's shape; errors: margins of an estimate and of its cells; shapes: the ages of each table, with
    their first and last year.
    Raises Refused for more than MOST_GROUPS groups.
    """
    number = sum(sum(release.numbers(level).values()) for level in release.levels)
    if number > MOST_GROUPS:
        raise Refused(f"{number:,} groups are too many for one file, at most {MOST_GROUPS:,}: choose a state (--scope)")
    order = list(release.iterations)
    codes = {code: at for at, code in enumerate(order)}
    regions = [region for region in index_of(release).texts if region in release.regions]  # the largest first
    rows: dict[str, list[list[Any]]] = {region.key: [] for region in regions}
    margins: dict[tuple[int, int, int, str], int] = {}
    errors: dict[tuple[int | None, ...], int] = {}
    for level in release.levels:
        cells = _cells(release, level)
        for group in release.totals(region_type=level.region_type, level=level):
            own = cells.get((group.region.id, group.code), [])
            place = margins.setdefault(_margins(group), len(margins))
            row: list[Any] = [codes[group.code], group.count, place, [cell.count for cell in own] or 0]
            if group.estimate is not None and all(cell.estimate is not None for cell in own):
                of = (group.estimate_margin, *(cell.margin for cell in own))
                differences = [cell.estimate - cell.count for cell in own if cell.estimate is not None]
                row += [group.estimate - group.count, errors.setdefault(of, len(errors)), differences]
            rows[group.region.key].append(row)
    return {
        "regions": [_region(release, region) for region in regions],
        "iterations": [list(vars(present_iteration(one)).values()) for one in release.iterations.values()],
        "groups": list(rows.values()),
        "named": {key.replace("/", "-"): [order[row[0]] for row in own] for key, own in rows.items()},
        "margins": list(margins),
        "errors": list(errors),
        "sides": SIDES,
        "tables": TABLE_NAMES,
        "shapes": {DETAILS[at]: [(age_label(*age), *age) for age in ages] for at, ages in AGE_RANGES.items()},
        "reading": caveat(release, "group"),
        "moe": "MOE" if confidence().is_released else f"MOE_{confidence().percent}",
    }


def _region(release: Release, region: Region) -> list[str]:
    item = present_region(release, region)
    return [region.type, region.id, item.name, f"in {item.within}" if item.within else ""]


def _margins(group: Published) -> tuple[int, int, int, str]:
    """Return the margins of a group's total, of a sex's sum and of a cell, and the shape of its table."""
    half, law = CELLS[group.shape] // len(SEXES), group.noise.law
    if group.shape == "total":
        return group.margin, 0, 0, group.shape
    return group.margin, margin_of_cells([(law, half)]), margin_of_cells([(law, 1)]), group.shape


@dataclass(frozen=True)
class _Cell:
    """A cell of T2, or a sex's sum; margin: of the estimate."""

    count: int
    estimate: int | None
    margin: int | None


def _cells(release: Release, level: Level) -> dict[tuple[str, str], list[_Cell]]:
    """Return the rows of T2 of a level by group: by sex, its sum first, then by age."""
    found: dict[tuple[str, str], list[tuple[int, int, _Cell]]] = {}
    for region, code, sex, start, count, estimate, margin in release.rows_of_cells(level):
        found.setdefault((region, code), []).append((sex, start, _Cell(count, estimate, margin)))
    return {group: [cell for *_, cell in sorted(rows, key=itemgetter(0, 1))] for group, rows in found.items()}
