"""Check every number that a TopDown release shows twice, counts and margins of error, and what is declared of blocks.

A geocode begins with its parent's, and a block's ends with its public code of 16 digits (`spine.geocodes`), so all sums
are sums over parts of a geocode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privacy.noise.margins import Z95
from privacy.tables.histogram import cell_table
from spine.declaration.figures import broken_counts
from spine.geocodes import digits
from spine.redistricting import redistricting_declaration
from tasks.records.arrow import text
from tasks.releases.check import Check
from tasks.releases.received import path_in
from tasks.releases.release_database import ReleaseDatabase, differing
from tasks.top_down.areas import DIGITS, FOLDERS, OFF_SPINE, TABULATED, WHOLE_STATE, areas, geocodes_of
from tasks.top_down.estimate.gls.margin_tables import PLACES
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.release.design_file import BLOCKS_FOLDER, MEASUREMENTS, read_blocks, read_description
from tasks.top_down.release.tables import has_measurements
from tasks.top_down.run_plan import SCHEMAS, US, counts_of

ROWS = "geounit, cell, count"
PUBLIC = "TABBLKST || TABBLKCOU || TABTRACTCE || TABBLKGRPCE || TABBLK"
View = Callable[[str], str]  # a SELECT of the rows of a file
ROUNDED = 0.5 * 10**-PLACES  # the largest rounding of a written standard error


def check_counts(
    database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], product: str
) -> Iterator[Check]:
    """Check histograms and invariants over the levels, and everything made of the blocks of each state."""
    levels = list(manifest["products"][product]["geounits"])
    files = ReleaseFiles(database, release, manifest["files"])
    database.register("cells", pa.table(cell_table(SCHEMAS[product].axes)))
    for kind, view in (("histograms", histogram), ("invariants", _invariants)):
        title = f"{kind} of {product}"
        yield _check_levels(files, f"{kind}/{product}", levels, manifest["states"], view, title)
    for state in manifest["states"]:
        yield _check_blocks(files, manifest, product, state)
        yield check_figures(release, product, levels[-1], state)


@dataclass(frozen=True)
class ReleaseFiles:
    """The files that a release's manifest names, as sources of rows in a SELECT of a database."""

    database: ReleaseDatabase
    release: Path
    named: Collection[str]

    def rows(self, name: str) -> str:
        """Return the rows of a Parquet file. Raises NotOfRelease for another than a file of the release."""
        return self.database.parquet(path_in(self.release, name))

    def rows_in(self, folder: str) -> str:
        """Return the rows of all Parquet files of a folder."""
        names = [name for name in sorted(self.named) if name.rpartition("/")[0] == folder and name.endswith(".parquet")]
        return self.database.parquet(*(path_in(self.release, name) for name in names))


def histogram(rows: str) -> str:
    """Return the SELECT of the rows of a file of histograms as geounit, cell and count."""
    return f"SELECT geounit::VARCHAR AS geounit, cell::INT AS cell, count::BIGINT AS count FROM {rows}"


def _invariants(rows: str) -> str:
    """Return the SELECT of the rows of a file of invariants: a row for each geounit and type of living quarters."""
    unpivoted = f"UNPIVOT {rows} ON COLUMNS(* EXCLUDE geounit) INTO NAME cell VALUE count"
    return f"SELECT geounit::VARCHAR AS geounit, cell, count::BIGINT AS count FROM ({unpivoted}) WHERE count <> 0"


def _sums(table: str, geounit: str) -> str:
    return f"SELECT {geounit} AS geounit, cell, sum(count)::BIGINT AS count FROM ({table}) GROUP BY ALL"


def _check_levels(
    files: ReleaseFiles, folder: str, levels: list[str], states: list[str], view: View, title: str
) -> Check:
    """Compare the counts of every level with the sums of those of the level below."""
    faults = []
    for above, below in pairwise(levels):
        for state in [US] if above == US else states:
            inside = f"{folder}/{below}"
            rows = files.rows_in(inside) if above == US else files.rows(f"{inside}/{state}.parquet")
            upper, lower = view(files.rows(f"{folder}/{above}/{state}.parquet")), view(rows)
            width = f"(SELECT coalesce(max(length(geounit)), 0) FROM ({upper}))"
            sums = _sums(lower, f"substr(geounit, 1, {width})")
            if wrong := differing(files.database, f"SELECT {ROWS} FROM ({upper})", sums):
                faults.append(f"{wrong:,} counts of level {above}, state {state}, are not sums of level {below}")
    return Check(f"{title} over the levels", f"{len(levels)} levels", tuple(faults))


def _check_blocks(files: ReleaseFiles, manifest: Mapping[str, Any], product: str, state: str) -> Check:
    """Compare microdata, tabulation geounits and entities of a state with the histograms of its blocks."""
    database, folder, faults = files.database, f"histograms/{product}", []
    lowest = list(manifest["products"][product]["geounits"])[-1]
    moved = manifest.get("source", {}).get("as_tabulated", {})
    codes = [(f"{int(old):016d}", f"{int(new):016d}") for old, new in moved.items()]
    cases = [f"WHEN {database.value(old)} THEN {database.value(new)}" for old, new in codes]
    public = "right(geounit, 16)"  # of a block's geocode, or where the Bureau's tables have the block
    public = f"CASE {public} {' '.join(cases)} ELSE {public} END" if cases else public
    counts = _sums(histogram(files.rows(f"{folder}/{lowest}/{state}.parquet")), public)
    database.execute(f"CREATE OR REPLACE TABLE blocks AS {counts}")
    blocks = f"SELECT {ROWS} FROM blocks"
    least = database.execute("SELECT coalesce(min(count), 1) FROM blocks").fetchall()[0][0]
    if least < 1:
        faults.append(f"blocks: a count is {least}")
    mdf = f"mdf/{state}_{product}"
    records = files.rows(f"{mdf}.parquet")
    compared = {"mdf": (_microdata(records, product, "COUNT"), blocks)}
    if manifest["options"]["microdata"] == "text":
        text_records = database.text_table(path_in(files.release, f"{mdf}.txt"))
        compared["mdf as text"] = _microdata(text_records, product, "1"), blocks
    if product == "units":
        quarters = _invariants(files.rows(f"invariants/{product}/{lowest}/{state}.parquet"))
        kind = f"SELECT {public} AS geounit, cell = 'hu' AS cell, count FROM"
        own = f"SELECT {PUBLIC} AS geounit, HH_STATUS <> '0' AS cell, COUNT AS count FROM {records}"
        compared["housing units and group quarters"] = _sums(own, "geounit"), _sums(f"{kind} ({quarters})", "geounit")
    whole_states = f"{folder}/{FOLDERS[WHOLE_STATE]}/"
    whole = {WHOLE_STATE: "State"} if any(name.startswith(whole_states) for name in files.named) else {}
    for family, level in (TABULATED | whole).items():
        rows = files.rows(f"{folder}/{FOLDERS[family]}/{state}.parquet")
        compared[f"tabulation {level}"] = histogram(rows), _sums(blocks, f"left(geounit, {DIGITS[family]})")
    if has_measurements(manifest):
        quarters = ", ".join(f"{name}::BIGINT AS {name}" for name in QUARTERS)
        own = f"SELECT lpad(geocode::VARCHAR, 16, '0') AS geounit, {quarters} FROM"
        declared = f"SELECT right(geounit::VARCHAR, 16) AS geounit, {quarters} FROM"
        compared["what is declared of the measured blocks"] = (
            f"{own} {files.rows(f'{MEASUREMENTS}/{BLOCKS_FOLDER}/{state}.parquet')}",
            f"{declared} {files.rows(f'invariants/{product}/{lowest}/{state}.parquet')}",
        )
        for family, of_block in _areas_of_blocks(files.release / MEASUREMENTS, product, state).items():
            name = f"{folder}/{FOLDERS[family]}/{state}.parquet"
            if name not in files.named and not len(of_block):
                continue
            database.register(family, of_block)
            sums = f"SELECT code AS geounit, cell, count FROM ({blocks}) JOIN {family} USING (geounit)"
            nothing = f"SELECT {ROWS} FROM ({blocks}) WHERE false"
            released = histogram(files.rows(name)) if name in files.named else nothing
            compared[f"entities {family}"] = released, _sums(sums, "geounit")
    for what, (released, expected) in compared.items():
        if wrong := differing(database, released, expected):
            faults.append(f"{what}: {wrong:,} counts are not those of the blocks")
    return Check(f"sums and microdata of the blocks of {product}, state {state}", ", ".join(compared), tuple(faults))


def check_figures(release: Path, product: str, level: str, state: str) -> Check:
    """Check that the counts of the blocks of a state agree with what is declared of them, and are of possible cells."""
    schema, file = SCHEMAS[product], f"{product}/{level}/{state}.parquet"
    quarters, counts = (pq.read_table(path_in(release, f"{folder}/{file}")) for folder in ("invariants", "histograms"))
    (counted,) = redistricting_declaration(schema.name, "us").form.counts
    declared = np.column_stack([quarters[name] for name in QUARTERS[: len(counted.columns)]])
    block = pc.index_in(*(each["geounit"].cast(pa.large_string()) for each in (counts, quarters)))
    cell, count = (counts[name].to_numpy().astype(np.int64) for name in ("cell", "count"))
    what, over = f"declared figures of {product}, state {state}", f"{len(quarters):,} blocks"
    if block.null_count:
        return Check(what, over, (f"{block.null_count:,} counts are of no block of invariants/",))
    broken = broken_counts(schema, counted, declared, block.to_numpy().astype(np.int64), cell, count)
    faults = [f"{int(bad.sum()):,} blocks with {rule}" for rule, bad in broken if bad.any()]
    if impossible := int((~schema.possible[cell]).sum()):
        faults.append(f"{impossible:,} counts are of cells that nobody can be in")
    return Check(what, over, tuple(faults))


def _microdata(table: str, product: str, count: str) -> str:
    """Return the SELECT of microdata as counts of cells; group quarters are not a cell of the units."""
    columns = ", ".join(axis.column for axis in SCHEMAS[product].axes)
    return _sums(
        f"SELECT {PUBLIC} AS geounit, cell::INT AS cell, {count} AS count FROM {table} JOIN cells USING ({columns})",
        "geounit",
    )


def _areas_of_blocks(measurements: Path, product: str, state: str) -> dict[str, pa.Table]:
    """Return by off-spine family the public code of each block inside an entity, and the entity's."""
    geography, _ = read_blocks(measurements, state)
    settings = read_description(measurements).design.settings[product]
    nothing = pa.table({"geounit": pa.array([], pa.string()), "code": pa.array([], pa.string())})
    found = dict.fromkeys(OFF_SPINE, nothing)
    for family in areas(geography, settings):
        if family.name in OFF_SPINE:
            inside = family.of_block >= 0
            codes = text(geocodes_of(family)).take(pa.array(family.of_block[inside]))
            found[family.name] = pa.table({"geounit": text(digits(geography.geocode[inside], 16)), "code": codes})
    return found


def check_margins(
    database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], product: str
) -> Iterator[Check]:
    """Check the margins of every level and family in the manifest."""
    counts = counts_of(product, bool(manifest["options"].get("pl94")))
    cell, at = np.nonzero(SCHEMAS[product].matrix(counts))
    counted = pa.table({"cell": cell, "name": np.array([count.name for count in counts])[at]})
    files = ReleaseFiles(database, release, manifest["files"])
    database.register("counted", counted)
    for entry in manifest["products"][product]["margins"]["mean_standard_error"]:
        folder = FOLDERS.get(entry["of"], entry["of"])
        states = [US] if entry["of"] == US else manifest["states"]
        yield _check_level_margins(files, states, f"{product}/{folder}", entry)


def margin_faults(database: ReleaseDatabase, rows: str, keys: str, margin: str, sums: str) -> Iterator[str]:
    """Yield what is wrong with the margins and released counts of a file, whose rows have both.

    keys, margin: in SQL, what names a row, and its margin. sums: a SELECT of the same keys with the sums of released
    cells that are not 0; empty where no file has these.
    """
    another = f"abs({margin} - {Z95} * standard_error) > {ROUNDED * (1 + Z95) * 1.001}"
    others = f"SELECT count(*) FROM {rows} WHERE ({another}) IS NOT FALSE"  # nulls too
    if wrong := database.execute(others).fetchall()[0][0]:
        yield f"{wrong:,} margins are not {Z95:.2f} standard errors"
    stated = f"SELECT {keys}, released::BIGINT FROM {rows} WHERE released IS DISTINCT FROM 0"
    if sums and (wrong := differing(database, stated, sums)):
        yield f"{wrong:,} released counts are not sums of the released cells"


def _check_level_margins(files: ReleaseFiles, states: list[str], folder: str, entry: Mapping[str, Any]) -> Check:
    """Compare a level's margins with its histograms, its standard errors, and the means in the manifest."""
    faults = []
    for state in states:
        name = f"margins/{folder}/{state}.parquet"
        if name not in files.named:
            continue
        cells = histogram(files.rows(f"histograms/{folder}/{state}.parquet"))
        sums = f"SELECT geounit, name, sum(count)::BIGINT FROM ({cells}) JOIN counted USING (cell) GROUP BY ALL"
        keys, margin = "geounit::VARCHAR, count::VARCHAR", f"coalesce(margin, {Z95} * standard_error)"
        found = margin_faults(files.database, files.rows(name), keys, margin, sums)
        faults += [f"state {state}: {fault}" for fault in found]
    rows = files.rows_in(f"margins/{folder}")
    of_these = "avg(standard_error) FILTER (margin IS NOT NULL)"
    means = f"SELECT count, avg(standard_error), {of_these}, count(*), count(margin) FROM {rows} GROUP BY count"
    of_count = {name: row for name, *row in files.database.execute(means).fetchall()}
    geounits = max((number for *_, number, _ in of_count.values()), default=0)
    with_margin = max((margins for *_, margins in of_count.values()), default=0)
    if (geounits, with_margin) != (entry["geounits"], entry["with_margin"]):
        faults.append(
            f"{geounits} geounits, {with_margin} with a margin, not {entry['geounits']}, {entry['with_margin']}"
        )
    faults += [
        f"{name}: the mean standard error is {of_count[name][at]:.{PLACES}f}, not {mean}"
        for at, means in enumerate((entry["mean_standard_error"], entry["mean_with_margin"]))
        for name, mean in means.items()
        if abs(of_count[name][at] - mean) > 2.001 * ROUNDED
    ]
    return Check(f"margins of {folder}", f"{geounits:,} geounits", tuple(faults))
