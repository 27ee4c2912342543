"""The data of a static copy of a TopDown release: geounits and cells of persons as Parquet, the rest as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.reports.show.detailed_dhca.presenters import ROWS
from flows.reports.show.export import MOST_ROWS, write_parquet
from flows.reports.show.geography import STATES
from flows.reports.show.top_down import views
from flows.reports.show.top_down.geounits import KINDS, OFF_SPINE, REGION_TYPES, TABULATION, TITLES, Geounit
from flows.reports.show.top_down.release import QUARTERS, Margin, TopDownRelease
from flows.reports.show.top_down.tables import ALONE, NAMES, OF_PRODUCT, PERSON_COLUMNS, RACES
from flows.reports.show.top_down.tables import QUARTERS as QUARTER_NAMES
from tasks.lifecycle.errors import Refused

GEOUNITS_AT_ONCE, CELLS_AT_ONCE = 65_536, 16_384  # rows of a row group: what a browser fetches at a time
TEXTS = ("KIND", "LEVEL", "STATE", "CODE")
SUMS = ("PERSONS", "ADULTS", "HISPANIC", "UNITS", "OCCUPIED")
NOTHING = (None,) * len(QUARTERS)
RANGES = ("FIRST", "ROWS", "SHARE", "ANSWER", "MARGIN_FIRST", "MARGIN_ROWS")
NUMBERS = (*SUMS, *(name.upper() for name in QUARTERS), *RANGES)
MARGINS = {
    **{"product": pa.string(), "count": pa.string(), "released": pa.int32()},
    **{"margin": pa.float64(), "estimate": pa.float64(), "error": pa.float64()},
}


def write_data(release: TopDownRelease, folder: Path) -> dict[str, Any]:
    """Write the geounits and cells of a release's scope; returns what else the browser needs to know."""
    rows: list[list[Any]] = []
    flat: list[tuple[int, int]] = []
    shares: dict[str, int] = {}
    margins: list[Margin] = []
    lists = [
        (kind, level, state) for state in release.states for kind in release.kinds for level in release.levels(kind)
    ]
    if release.nation and release.scope.state is None:
        _add(release, [release.top], rows, flat, shares, margins)
    for kind, level, state in lists:
        if release.is_listed(kind, level, state):
            _add(release, [row.geounit for row in release.rows(kind, level, state)], rows, flat, shares, margins)
        if len(rows) > MOST_ROWS:
            raise Refused(f"more than {MOST_ROWS:,} geounits are too many for a browser; copy one state with --part")
    columns = list(zip(*rows, strict=True))
    texts = {name: pa.array(column, pa.string()) for name, column in zip(TEXTS, columns, strict=False)}
    numbers = {name: pa.array(column, pa.int32()) for name, column in zip(NUMBERS, columns[4:], strict=True)}
    write_parquet(folder / "geounits.parquet", {**texts, **numbers}, GEOUNITS_AT_ONCE)
    cells = {"CELL": pa.array([cell for cell, _ in flat], pa.int32())}
    cells["COUNT"] = pa.array([count for _, count in flat], pa.int32())
    write_parquet(folder / "cells.parquet", cells, CELLS_AT_ONCE)
    beside = {name.upper(): pa.array([getattr(one, name) for one in margins], of) for name, of in MARGINS.items()}
    write_parquet(folder / "margins.parquet", beside, CELLS_AT_ONCE)
    return _told(release, list(shares))


def _add(
    release: TopDownRelease,
    geounits: list[Geounit],
    rows: list[list[Any]],
    flat: list[tuple[int, int]],
    shares: dict[str, int],
    margins: list[Margin],
) -> None:
    """Add the geounits of one level of one state to the rows of the copy, and their cells to the flat ones."""
    first: Geounit = geounits[0]
    sums, cells = release.all_sums(first), release.all_cells(first)
    declared, answers = release.all_declared(first), release.all_answers(first)
    beside = release.all_margins(first)
    for one in geounits:
        own: list[tuple[int, int]] = sorted(cells.get(one.code, ()))
        share, answer = answers.get(one.code, (None, None))
        number = None if share is None else shares.setdefault(share, len(shares))
        quarters: list[Any] = list(declared.get(one.code) or NOTHING)
        ranges = [len(flat), len(own), number, answer, len(margins), len(beside.get(one.code, ()))]
        rows.append([one.kind, one.level, one.state, one.code, *sums[one.code], *quarters, *ranges])
        flat += own
        margins += beside.get(one.code, [])


def _told(release: TopDownRelease, shares: list[str]) -> dict[str, Any]:
    noise = [
        [kind, level, shares.index(one.share), one.query, one.answers, one.deviation, one.margin]
        for kind in release.kinds
        for level in (release.levels(kind) if kind.startswith("spine") else ())
        for one in release.all_noise(kind, level)
    ]
    return {
        "overview": asdict(views.overview(release)),
        "kinds": {kind: release.levels(kind) for kind in release.kinds},
        "products": list(release.products),
        "states": release.states,
        "nation": release.nation and release.scope.state is None,
        "names": [[region.type, region.id, name] for region, name in sorted(release.names.items())],
        "shares": shares,
        "noise": noise,
        "margin": [views.describe_margins(release), views.describe_margins(release, given=True)],
        "with_margins": [
            f"{kind}/{level}/{state}"
            for kind in release.kinds
            for level in release.levels(kind)
            for state in release.states
            if release.has_margins_of(kind, level, state)
        ],
        "reading": {name: views.caveat(release, name) for name in views.CAVEATS},
        "words": {
            "kinds": KINDS,
            "titles": TITLES,
            "region_types": REGION_TYPES,
            "states": STATES,
            "widths": {**TABULATION, **OFF_SPINE},
            "tabulation": list(TABULATION),
            "tables": NAMES,
            "of_product": {name: list(tables) for name, tables in OF_PRODUCT.items()},
            "person_columns": PERSON_COLUMNS,
            "alone": ALONE,
            "races": RACES,
            "quarters": QUARTER_NAMES,
            "rows": ROWS,
            "found": views.FOUND,
        },
    }
