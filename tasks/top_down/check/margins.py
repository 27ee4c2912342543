"""Check the margins of error of a TopDown release: the counts beside them, and 1.96 standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tasks.lifecycle.check import Check
from tasks.top_down.areas import FOLDERS
from tasks.top_down.check.counts import histogram, parquet
from tasks.top_down.gls.released_margins import PLACES
from tasks.top_down.gls.saved_margins import Z, columns_of

ROUNDED = 0.5 * 10**-PLACES  # the largest rounding of a written standard error


def check_margins(release: Path, manifest: Mapping[str, Any], product: str) -> Iterator[Check]:
    """Check the margins of every level and family in the manifest."""
    columns = columns_of(product)
    cell, column = np.nonzero(columns.cells)
    counted = pa.table({"cell": cell, "name": np.array(columns.names)[column]})
    with duckdb.connect() as database:
        database.register("counted", counted)
        for entry in manifest["products"][product]["margins"]["mean_standard_error"]:
            folder = FOLDERS.get(entry["of"], entry["of"])
            yield _check(database, release, manifest["states"], f"{product}/{folder}", entry)


def _check(
    database: duckdb.DuckDBPyConnection, release: Path, states: list[str], folder: str, entry: Mapping[str, Any]
) -> Check:
    """Compare a level's margins with its histograms, its standard errors, and the means in the manifest."""
    faults = []
    for state in states:
        path = release / "margins" / folder / f"{state}.parquet"
        if not path.exists():
            continue
        counts_of = histogram(release / "histograms" / folder / path.name)
        sums = f"SELECT geounit, name, sum(count) AS summed FROM ({counts_of}) JOIN counted USING (cell) GROUP BY ALL"
        wrong = (
            "SELECT count(*) FILTER (released <> coalesce(summed, 0)), "
            f"count(*) FILTER (abs(margin - {Z} * standard_error) > {ROUNDED * (1 + Z) * 1.001}) "
            f"FROM (SELECT * EXCLUDE (geounit, count), geounit::VARCHAR AS geounit, count::VARCHAR AS name "
            f"FROM {parquet(path)}) LEFT JOIN ({sums}) USING (geounit, name)"
        )
        counts, margins = database.execute(wrong).fetchall()[0]
        if counts:
            faults.append(f"state {state}: {counts:,} counts are not those released")
        if margins:
            faults.append(f"state {state}: {margins:,} margins are not {Z} standard errors")
    files = parquet(release / "margins" / folder / "*.parquet")
    means = f"SELECT count, avg(standard_error), count(*), count(margin) FROM {files} GROUP BY count"
    found = {name: row for name, *row in database.execute(means).fetchall()}
    geounits = max((rows for _, rows, _ in found.values()), default=0)
    with_margin = max((margins for *_, margins in found.values()), default=0)
    if (geounits, with_margin) != (entry["geounits"], entry["with_margin"]):
        faults.append(
            f"{geounits} geounits, {with_margin} with a margin, not {entry['geounits']}, {entry['with_margin']}"
        )
    faults += [
        f"{name}: the mean standard error is {found[name][0]:.{PLACES}f}, not {mean}"
        for name, mean in entry["mean_standard_error"].items()
        if abs(found[name][0] - mean) > 2.001 * ROUNDED
    ]
    return Check(f"margins of {folder}", f"{geounits:,} geounits", tuple(faults))
