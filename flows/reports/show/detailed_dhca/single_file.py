"""The groups of a release, or of a state of it, as the data of one page: counts, cells by sex and age, margins."""

from __future__ import annotations

from typing import Any

from flows.reports.show.confidence import confidence
from flows.reports.show.detailed_dhca.ages import ages_of
from flows.reports.show.detailed_dhca.caveats import caveat
from flows.reports.show.detailed_dhca.noise import margin_of_cells
from flows.reports.show.detailed_dhca.presenters import present_iteration, present_region
from flows.reports.show.detailed_dhca.release import CELLS, SEXES, Published, Release
from flows.reports.show.detailed_dhca.search import index_of
from flows.reports.show.geography import Region
from tasks.detailed_dhca.pyramid import age_label
from tasks.detailed_dhca.report import SHAPES
from tasks.inputs.configuration import Level
from tasks.lifecycle.errors import Refused

MOST_GROUPS = 500_000


def single_file_data(release: Release) -> dict[str, Any]:
    """Return the data of one page.

    regions: [type, id, name, what it is in]; iterations: [code, name, level]; groups: of each region [iteration,
    count, place of its margins, cells or 0]; cells: males of all ages and of each, then females.
    margins: of a total, a sex's sum and a cell, and the table's shape; shapes: the ages of each table.
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
    for level in release.levels:
        cells = _cells(release, level)
        for group in release.totals(region_type=level.region_type, level=level):
            own = cells.get((group.region.id, group.code), 0)
            place = margins.setdefault(_margins(group), len(margins))
            rows[group.region.key].append([codes[group.code], group.count, place, own])
    return {
        "regions": [_region(release, region) for region in regions],
        "iterations": [list(vars(present_iteration(one)).values()) for one in release.iterations.values()],
        "groups": list(rows.values()),
        "named": {key.replace("/", "-"): [order[row[0]] for row in own] for key, own in rows.items()},
        "margins": list(margins),
        "shapes": {shape: [age_label(*age) for age in ages_of(shape)] for shape in SHAPES if shape != "total"},
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


def _cells(release: Release, level: Level) -> dict[tuple[str, str], list[int]]:
    """Return the rows of T2 of a level by group: by sex, its sum first, then by age."""
    found: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for region, code, start, sex, count in release.rows_of_cells(level):
        found.setdefault((region, code), []).append((sex, start, count))
    return {group: [count for *_, count in sorted(cells)] for group, cells in found.items()}
