"""Check every count that a TopDown release shows twice: on a level and the one below, in blocks and in microdata.

A geocode begins with its parent's, and a block's ends with its public code of 16 digits (`spine.geocodes`), so all sums
are sums over parts of a geocode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from spine.geocodes import digits
from tasks.inputs.arrow import text
from tasks.lifecycle.check import Check
from tasks.top_down.areas import DIGITS, FOLDERS, OFF_SPINE, TABULATED, areas
from tasks.top_down.check.files import has_measurements
from tasks.top_down.measure.description import FOLDER, read_blocks, read_description
from tasks.top_down.run_plan import US

ROWS = "geounit, cell, count"
CELL = {  # of a row of the microdata; None for group quarters, which are no cell
    "persons": "((CAST(GQTYPE_PL AS INT) * 2 + CAST(VOTING_AGE AS INT) - 1) * 2 + CAST(CENHISP AS INT) - 1) * 63 "
    "+ CAST(CENRACE AS INT) - 1",
    "units": "CASE HH_STATUS WHEN '1' THEN 1 WHEN '2' THEN 0 END",
}
PUBLIC = "TABBLKST || TABBLKCOU || TABTRACTCE || TABBLKGRPCE || TABBLK"


def check_counts(release: Path, manifest: Mapping[str, Any], product: str) -> Iterator[Check]:
    """Check histograms and invariants over the levels, and everything made of the blocks of each state."""
    levels = list(manifest["products"][product]["geounits"])
    with duckdb.connect() as database:
        for kind, view in (("histograms", histogram), ("invariants", _invariants)):
            yield _check_levels(
                database, release / kind / product, levels, manifest["states"], view, f"{kind} of {product}"
            )
        for state in manifest["states"]:
            yield _check_blocks(database, release, manifest, product, state)


def histogram(path: Path) -> str:
    """Return the SELECT of a file of histograms as geounit, cell and count."""
    return f"SELECT geounit::VARCHAR AS geounit, cell::INT AS cell, count::BIGINT AS count FROM {parquet(path)}"


def parquet(path: Path | str) -> str:
    """Return the name of a Parquet file, or of those of a pattern, in a SELECT."""
    return f"read_parquet({quoted(path)})"


def quoted(path: Path | str) -> str:
    """Return a text as an SQL literal."""
    return "'" + str(path).replace("'", "''") + "'"


def differing(database: duckdb.DuckDBPyConnection, one: str, other: str) -> int:
    """Return the number of rows of one SELECT that the other lacks, or the other way, whichever is larger."""
    pairs = ((one, other), (other, one))
    found = [database.execute(f"SELECT count(*) FROM (({a}) EXCEPT ALL ({b}))").fetchall()[0][0] for a, b in pairs]
    return int(max(found))


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
    database: duckdb.DuckDBPyConnection, release: Path, manifest: Mapping[str, Any], product: str, state: str
) -> Check:
    """Compare microdata, tabulation geounits and entities of a state with the histograms of its blocks."""
    folder, faults = release / "histograms" / product, []
    lowest = list(manifest["products"][product]["geounits"])[-1]
    blocks = _sums(histogram(folder / lowest / f"{state}.parquet"), "right(geounit, 16)")
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
        kind = "SELECT right(geounit, 16) AS geounit, cell = 'hu' AS cell, count FROM"
        own = f"SELECT {PUBLIC} AS geounit, HH_STATUS <> '0' AS cell, COUNT AS count FROM {parquet(f'{mdf}.parquet')}"
        compared["housing units and group quarters"] = _sums(own, "geounit"), _sums(f"{kind} ({quarters})", "geounit")
    for family, level in TABULATED.items():
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
    return Check(f"what is made of the blocks of {product}, state {state}", ", ".join(compared), tuple(faults))


def _microdata(table: str, product: str, count: str) -> str:
    """Return the SELECT of microdata as counts of cells."""
    return _sums(
        f"SELECT * FROM (SELECT {PUBLIC} AS geounit, ({CELL[product]})::INT AS cell, {count} AS count FROM {table}) "
        "WHERE cell IS NOT NULL",
        "geounit",
    )


def _areas_of_blocks(measurements: Path, product: str, state: str) -> dict[str, pa.Table]:
    """Return by off-spine family the public code of each block inside an entity, and the entity's."""
    geography, _ = read_blocks(measurements, state)
    settings = read_description(measurements).design.settings[product]  # type: ignore[index]
    nothing = pa.table({"geounit": pa.array([], pa.string()), "code": pa.array([], pa.string())})
    found = dict.fromkeys(OFF_SPINE, nothing)
    for family in areas(geography, settings):
        if family.family in OFF_SPINE:
            inside = family.of_block >= 0
            codes = text(family.geocodes).take(pa.array(family.of_block[inside]))
            found[family.family] = pa.table({"geounit": text(digits(geography.geocode[inside], 16)), "code": codes})
    return found
