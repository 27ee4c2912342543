"""The data of a static copy of a Detailed DHC-A release: groups and cells as Parquet, the rest as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.reports.show.detailed_dhca import views
from flows.reports.show.detailed_dhca.ages import STARTS
from flows.reports.show.detailed_dhca.caveats import CAVEATS, caveat
from flows.reports.show.detailed_dhca.child_areas import FEW
from flows.reports.show.detailed_dhca.presenters import ROWS, SHAPE_WORDS
from flows.reports.show.detailed_dhca.release import CELLS, SHAPES, Cell, Published, Release
from flows.reports.show.export import MOST_ROWS, write_parquet
from flows.reports.show.geography import ADD_UP, STATES, TITLES, WITHIN, Region
from flows.reports.show.names import Names
from privacy.noise.laws import DiscreteGaussian, Law
from tasks.detailed_dhca.report import LEVEL_WORDS
from tasks.lifecycle.errors import Refused

GROUPS_AT_ONCE, CELLS_AT_ONCE = 65_536, 16_384  # rows of a row group: what a browser fetches at a time
ESTIMATES = ("ESTIMATE", "ESTIMATE_MOE")  # columns, empty where there is none


def write_data(release: Release, folder: Path) -> dict[str, Any]:
    """Write the groups and their cells; returns what else the browser needs to know."""
    groups = list(_groups(release))
    if len(groups) > MOST_ROWS:
        raise Refused(
            f"{len(groups):,} groups are more than a browser should hold; copy a state or a level with --part"
        )
    used = [facts.laws["total"] for facts in release.levels.values()] + [group.noise.law for group in groups]
    laws = list(dict.fromkeys(law for law in used if law))
    sources = {source: number for number, source in enumerate(dict.fromkeys(group.noise.source for group in groups))}
    by_group = {key: of for level in release.levels for key, of in release.all_cells(level).items()}
    first: list[int] = []
    flat: list[Cell] = []
    for group in groups:
        first.append(len(flat))
        flat += by_group.get((group.region, group.code), [])
    texts = {
        "TYPE": [group.region.type for group in groups],
        "ID": [group.region.id for group in groups],
        "CODE": [group.code for group in groups],
    }
    numbers = {
        "COUNT": [group.count for group in groups],
        "MOE": [group.margin for group in groups],
        "SHAPE": [SHAPES.index(group.shape) for group in groups],
        "SOURCE": [sources[group.noise.source] for group in groups],
        "LAW": [laws.index(group.noise.law) if group.noise.law else -1 for group in groups],
        "FIRST": first,
        "ROWS": [len(by_group.get((group.region, group.code), [])) for group in groups],
    }
    write_parquet(folder / "groups.parquet", {**texts, **_int32(numbers), **_estimates(groups)}, GROUPS_AT_ONCE)
    cells = {
        "START": [-1 if cell.start is None else cell.start for cell in flat],
        "END": [-1 if cell.end is None else cell.end for cell in flat],
        "SEX": [cell.sex for cell in flat],
        "COUNT": [cell.count for cell in flat],
        "MOE": [cell.margin for cell in flat],
    }
    write_parquet(folder / "cells.parquet", {**_int32(cells), **_estimates(flat)}, CELLS_AT_ONCE)
    return _told(release, laws)


def _groups(release: Release) -> Iterator[Published]:
    """Return every published group of the scope, in the order of levels, regions, iterations."""
    for level in release.levels:
        rows = release.totals(region_type=level.region_type, level=level)
        yield from sorted(rows, key=lambda row: (row.region.id, row.code))


def _estimates(rows: Sequence[Published] | Sequence[Cell]) -> dict[str, pa.Array]:
    """Return the columns of the estimates."""
    both = [row.estimate or (None, None) for row in rows]
    return {name: pa.array([one[number] for one in both], pa.int32()) for number, name in enumerate(ESTIMATES)}


def _int32(columns: Mapping[str, list[int]]) -> dict[str, Any]:
    return {name: np.asarray(values, np.int32) for name, values in columns.items()}


def _told(release: Release, laws: list[Law]) -> dict[str, Any]:
    """Return what the views need besides the tables: regions, iterations, levels, laws, and the words of both pages."""
    regions = sorted(release.regions)
    named: Names = {region: name for region, name in release.names.items() if release.scope.holds(region)}
    return {
        "overview": asdict(views.overview(release)),
        "regions": [[region.type, region.id] for region in regions],
        "names": [[region.type, region.id, name] for region, name in sorted(named.items())],
        "sets": _sets_of(release, regions),
        "all_listed": release.all_listed,
        "estimated": release.estimated,
        "iterations": [
            [one.code, one.name, one.level, one.nation_state, one.sub_state] for one in release.iterations.values()
        ],
        "levels": [
            {
                "type": level.region_type,
                "level": level.iteration_level,
                "nation_or_state": level.nation_or_state,
                "regions": facts.regions,
                "iterations": facts.iterations,
                "suppressed_up_to": facts.suppressed_up_to,
                "law": laws.index(law) if (law := facts.laws["total"]) else None,
            }
            for level, facts in release.levels.items()
        ],
        "laws": [_law(law) for law in laws],
        "scope": {"state": release.scope.state, "words": release.scope.words, "level": release.scope.level is not None},
        "reading": {name: caveat(release, name) for name in CAVEATS},
        "words": {
            "titles": TITLES,
            "within": WITHIN,
            "add_up": ADD_UP,
            "states": STATES,
            "shapes": list(SHAPES),
            "shape_words": SHAPE_WORDS,
            "cells": [CELLS[shape] for shape in SHAPES],
            "starts": {shape: list(starts) for shape, starts in STARTS.items()},
            "levels": {str(level): word for level, word in LEVEL_WORDS.items()},
            "rows": ROWS,
            "few": FEW,
            "listed": views.LISTED,
            "found": views.FOUND,
        },
    }


def _law(law: Law) -> list[Any]:
    if isinstance(law, DiscreteGaussian):
        return ["gaussian", float(law.sigma_squared)]
    return ["geometric", float(law.scale)]


def _sets_of(release: Release, regions: list[Region]) -> list[list[list[str]]]:
    """Return the sets of coterminous regions that meet the scope."""
    sets = {(region, *release.coterminous(region)) for region in regions if release.coterminous(region)}
    whole = {frozenset(members): sorted(members, key=release.set_order) for members in sets}
    return [[[member.type, member.id] for member in members] for members in whole.values()]
