"""Check every number that a TopDown release shows twice: counts and margins of error.

A geocode begins with its parent's, and a block's ends with its public code of 16 digits (`spine.geocodes`), so all sums
are sums over parts of a geocode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from privacy.noise.margins import Z95
from spine.counts import cell_table
from spine.geocodes import digits
from tasks.inputs.arrow import text
from tasks.lifecycle.check import Check
from tasks.lifecycle.release_database import ReleaseDatabase, differing, parquet, quoted
from tasks.top_down.areas import DIGITS, FOLDERS, OFF_SPINE, TABULATED, WHOLE_STATE, areas
from tasks.top_down.estimate.gls.margin_tables import PLACES, counts_of
from tasks.top_down.release.description import FOLDER, read_blocks, read_description
from tasks.top_down.release.tables import has_measurements
from tasks.top_down.run_plan import SCHEMAS, US, ProductName

ROWS = "geounit, cell, count"
PUBLIC = "TABBLKST || TABBLKCOU || TABTRACTCE || TABBLKGRPCE || TABBLK"
ROUNDED = 0.5 * 10**-PLACES  # the largest rounding of a written standard error


def check_counts(release: Path, manifest: Mapping[str, Any], product: ProductName) -> Iterator[Check]:
    """Check histograms and invariants over the levels, and everything made of the blocks of each state."""
    levels = list(manifest["products"][product]["geounits"])
    with ReleaseDatabase() as database:
        database.register("cells", pa.table(cell_table(SCHEMAS[product].axes)))
        for kind, view in (("histograms", histogram), ("invariants", _invariants)):
            yield _check_levels(
                database, release / kind / product, levels, manifest["states"], view, f"{kind} of {product}"
            )
        for state in manifest["states"]:
            yield _check_blocks(database, release, manifest, product, state)


def histogram(path: Path) -> str:
    """Return the SELECT of a file of histograms as geounit, cell and count."""
    return f"SELECT geounit::VARCHAR AS geounit, cell::INT AS cell, count::BIGINT AS count FROM {parquet(path)}"


def _invariants(path: Path) -> str:
    """Return the SELECT of a file of invariants: a row for each geounit and type of living quarters in it."""
    unpivoted = f"UNPIVOT {parquet(path)} ON COLUMNS(* EXCLUDE geounit) INTO NAME cell VALUE count"
    return f"SELECT geounit::VARCHAR AS geounit, cell, count::BIGINT AS count FROM ({unpivoted}) WHERE count <> 0"


def _sums(table: str, geounit: str) -> str:
    return f"SELECT {geounit} AS geounit, cell, sum(count)::BIGINT AS count FROM ({table}) GROUP BY ALL"


def _check_levels(
    database: duckdb.DuckDBPyConnection, folder: Path, levels: list[str], states: list[str], view: Any, title: str
) -> Check:
    """Compare the counts of every level with the sums of those of the level below."""
    faults = []
    for above, below in pairwise(levels):
        for state in [US] if above == US else states:
            pattern = "*" if above == US else state
            upper, lower = view(folder / above / f"{state}.parquet"), view(folder / below / f"{pattern}.parquet")
            width = f"(SELECT coalesce(max(length(geounit)), 0) FROM ({upper}))"
            wrong = differing(database, f"SELECT {ROWS} FROM ({upper})", _sums(lower, f"substr(geounit, 1, {width})"))
            if wrong:
                faults.append(f"{wrong:,} counts of level {above}, state {state}, are not sums of level {below}")
    return Check(f"{title} over the levels", f"{len(levels)} levels", tuple(faults))


def _check_blocks(
    database: duckdb.DuckDBPyConnection, release: Path, manifest: Mapping[str, Any], product: ProductName, state: str
) -> Check:
    """Compare microdata, tabulation geounits and entities of a state with the histograms of its blocks."""
    folder, faults = release / "histograms" / product, []
    lowest = list(manifest["products"][product]["geounits"])[-1]
    moved = manifest.get("source", {}).get("as_tabulated", {})
    cases = [f"WHEN '{int(old):016d}' THEN '{int(new):016d}'" for old, new in moved.items()]
    public = "right(geounit, 16)"  # of a block's geocode; where the Bureau's tables have it elsewhere, there
    public = f"CASE {public} {' '.join(cases)} ELSE {public} END" if cases else public
    blocks = _sums(histogram(folder / lowest / f"{state}.parquet"), public)
    least = database.execute(f"SELECT coalesce(min(count), 1) FROM ({blocks})").fetchall()[0][0]
    if least < 1:
        faults.append(f"blocks: a count is {least}")
    mdf = release / "mdf" / f"{state}_{product}"
    compared = {"mdf": (_microdata(parquet(f"{mdf}.parquet"), product, "COUNT"), blocks)}
    if manifest["options"]["microdata"] == "text":
        read = (
            f"read_csv({quoted(f'{mdf}.txt')}, delim = '|', header = true, all_varchar = true, quote = '', escape = '')"
        )
        compared["mdf as text"] = _microdata(read, product, "1"), blocks
    if product == "units":
        quarters = _invariants(release / "invariants" / product / lowest / f"{state}.parquet")
        kind = f"SELECT {public} AS geounit, cell = 'hu' AS cell, count FROM"
        own = f"SELECT {PUBLIC} AS geounit, HH_STATUS <> '0' AS cell, COUNT AS count FROM {parquet(f'{mdf}.parquet')}"
        compared["housing units and group quarters"] = _sums(own, "geounit"), _sums(f"{kind} ({quarters})", "geounit")
    whole = {WHOLE_STATE: "State"} if (folder / FOLDERS[WHOLE_STATE]).exists() else {}
    for family, level in (TABULATED | whole).items():
        path = folder / FOLDERS[family] / f"{state}.parquet"
        compared[f"tabulation {level}"] = histogram(path), _sums(blocks, f"left(geounit, {DIGITS[family]})")
    if has_measurements(manifest):
        for family, of_block in _areas_of_blocks(release / FOLDER, product, state).items():
            path = folder / FOLDERS[family] / f"{state}.parquet"
            if not path.exists() and not len(of_block):
                continue
            database.register(family, of_block)
            sums = f"SELECT code AS geounit, cell, count FROM ({blocks}) JOIN {family} USING (geounit)"
            released = histogram(path) if path.exists() else f"SELECT {ROWS} FROM ({blocks}) WHERE false"
            compared[f"entities {family}"] = released, _sums(sums, "geounit")
    for what, (released, expected) in compared.items():
        if wrong := differing(database, released, expected):
            faults.append(f"{what}: {wrong:,} counts are not those of the blocks")
    return Check(f"sums and microdata of the blocks of {product}, state {state}", ", ".join(compared), tuple(faults))


def _microdata(table: str, product: ProductName, count: str) -> str:
    """Return the SELECT of microdata as counts of cells; group quarters are no cell of the units."""
    columns = ", ".join(axis.column for axis in SCHEMAS[product].axes)
    return _sums(
        f"SELECT {PUBLIC} AS geounit, cell::INT AS cell, {count} AS count FROM {table} JOIN cells USING ({columns})",
        "geounit",
    )


def _areas_of_blocks(measurements: Path, product: ProductName, state: str) -> dict[str, pa.Table]:
    """Return by off-spine family the public code of each block inside an entity, and the entity's."""
    geography, _ = read_blocks(measurements, state)
    settings = read_description(measurements).design.settings[product]
    nothing = pa.table({"geounit": pa.array([], pa.string()), "code": pa.array([], pa.string())})
    found = dict.fromkeys(OFF_SPINE, nothing)
    for family in areas(geography, settings):
        if family.family in OFF_SPINE:
            inside = family.of_block >= 0
            codes = text(family.geocodes).take(pa.array(family.of_block[inside]))
            found[family.family] = pa.table({"geounit": text(digits(geography.geocode[inside], 16)), "code": codes})
    return found


def check_margins(release: Path, manifest: Mapping[str, Any], product: ProductName) -> Iterator[Check]:
    """Check the margins of every level and family in the manifest."""
    counts = counts_of(product, bool(manifest["options"].get("pl94")))
    cell, at = np.nonzero(SCHEMAS[product].matrix(counts))
    counted = pa.table({"cell": cell, "name": np.array([count.name for count in counts])[at]})
    with ReleaseDatabase() as database:
        database.register("counted", counted)
        for entry in manifest["products"][product]["margins"]["mean_standard_error"]:
            folder = FOLDERS.get(entry["of"], entry["of"])
            states = [US] if entry["of"] == US else manifest["states"]
            yield _check_level_margins(database, release, states, f"{product}/{folder}", entry)


def _check_level_margins(
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
            f"count(*) FILTER (abs(margin - {Z95} * standard_error) > {ROUNDED * (1 + Z95) * 1.001}) "
            f"FROM (SELECT * EXCLUDE (geounit, count), geounit::VARCHAR AS geounit, count::VARCHAR AS name "
            f"FROM {parquet(path)}) LEFT JOIN ({sums}) USING (geounit, name)"
        )
        counts, margins = database.execute(wrong).fetchall()[0]
        if counts:
            faults.append(f"state {state}: {counts:,} counts are not those released")
        if margins:
            faults.append(f"state {state}: {margins:,} margins are not {Z95:.2f} standard errors")
    files = parquet(release / "margins" / folder / "*.parquet")
    of_these = "avg(standard_error) FILTER (margin IS NOT NULL)"
    means = f"SELECT count, avg(standard_error), {of_these}, count(*), count(margin) FROM {files} GROUP BY count"
    found = {name: row for name, *row in database.execute(means).fetchall()}
    geounits = max((rows for *_, rows, _ in found.values()), default=0)
    with_margin = max((margins for *_, margins in found.values()), default=0)
    if (geounits, with_margin) != (entry["geounits"], entry["with_margin"]):
        faults.append(
            f"{geounits} geounits, {with_margin} with a margin, not {entry['geounits']}, {entry['with_margin']}"
        )
    faults += [
        f"{name}: the mean standard error is {found[name][at]:.{PLACES}f}, not {mean}"
        for at, means in enumerate((entry["mean_standard_error"], entry["mean_with_margin"]))
        for name, mean in means.items()
        if abs(found[name][at] - mean) > 2.001 * ROUNDED
    ]
    return Check(f"margins of {folder}", f"{geounits:,} geounits", tuple(faults))
