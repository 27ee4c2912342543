"""Compare das-flows' unbiased estimates with the Census Bureau's, cell by cell of the tables P1 to P5.

Theirs are the "2020 Redistricting Data File Least Squares Estimates" (April 2025): of every US, state, county and tract
an estimate and a standard deviation of each cell.

```
us/Tract/State=01/County=001/Tract=020100/part-....csv    geocode|query|estimate|std_dev|query_description
```

The Bureau's estimator uses all measurements that ours uses, and those of the DHC. The covariance of two such estimators
is the variance of the better one, so that of their difference is s_ours^2 - s_theirs^2, and

    z = (ours - theirs) / sqrt(s_ours^2 - s_theirs^2)

has mean 0 and variance 1; s_ours is never below s_theirs. This holds for margins made without what the Bureau leaves
out: the state totals and the zeros of blocks (`free`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import chi2

from privacy.accounting.states import EVERYWHERE
from spine.redistricting import PERSON_TABLES
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST, read_manifest
from tasks.lifecycle.new_folder import new_folder
from tasks.lifecycle.received import NotOfRelease, path_in, reason_of
from tasks.lifecycle.release_database import ReleaseDatabase
from tasks.top_down.areas import FOLDERS
from tasks.top_down.estimate.gls.margin_tables import MARGINS, PLACES
from tasks.top_down.run_plan import US

APART = 4  # standard errors, of both together, beyond which two estimates of one count do not agree
CHANCE = 1e-5  # that a query is called unlike N(0, 1) though it is not
ROUNDED = 0.5001 * 10**-PLACES  # more than any rounding of our written estimates and standard errors
SHARPEST = 0.05  # s_ours^2 - s_theirs^2 in units of s_ours, below which that rounding would show in z
SUMS = (
    "count(*) AS cells, count(DISTINCT geocode) AS geounits, count(z) AS with_z, avg(z) AS mean_z, "
    "avg(z * z) AS mean_z2, avg(difference) AS mean_difference, sqrt(avg(difference * difference)) AS rms_difference, "
    "avg(our_error) AS our_error, avg(their_error) AS their_error, "
    "median(our_error / their_error) FILTER (their_error > 0) AS error_ratio, "
    f"count(*) FILTER (their_error > our_error + {ROUNDED}) AS theirs_larger, "
    f"count(*) FILTER (abs(difference) > {APART} * sqrt(our_error ** 2 + their_error ** 2) + {ROUNDED}) AS apart"
)
WIDTHS = {US: 0, "State": 2, "County": 5, "Tract": 11}  # digits of a geocode
COLUMNS = ("geocode", "query", "estimate", "std_dev")
NAMED = re.compile(r"(?:State|County|Tract)=([0-9]+)")
LARGEST_HEADER = 4096  # bytes
Files: TypeAlias = dict[str, str]  # paths, and the geocode that each file's folders name


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    free: whether z is there. by_query: a row for each level and query; by_table: for each level and table. alike: in
    by_query whether the mean of z squared is one that N(0, 1) gives. notes: about what was left out.
    """

    free: bool
    by_query: pd.DataFrame
    by_table: pd.DataFrame
    notes: list[str]

    @property
    def unlike(self) -> pd.DataFrame:
        """Return the queries whose z are not N(0, 1)."""
        return self.by_query[self.by_query["alike"].eq(False)]

    @property
    def verdict(self) -> str:
        """Return one sentence."""
        cells, larger, apart = (int(self.by_query[name].sum()) for name in ("cells", "theirs_larger", "apart"))
        faults = [f"{apart:,} estimates differ by more than {APART} standard errors"] if apart else []
        if self.free:
            faults += [f"{larger:,} of the Bureau's standard errors are above ours"] if larger else []
            faults += [f"z of {len(self.unlike):,} queries is not N(0, 1)"] if len(self.unlike) else []
        if faults:
            return f"do not agree, of {cells:,} cells: {'; '.join(faults)}"
        return f"agree in all {cells:,} cells" + (": z is N(0, 1), and no standard error is above ours" * self.free)


def compare_with_bureau(margins: Path, product: Path, out: Path | None = None) -> Comparison:
    """Compare the margins of a release with the Bureau's estimates; write every cell to a new folder `out`.

    Raises Refused where the release has no margins of the tables' cells, or the product is not as the Bureau made it.
    """
    release = margins.parent if margins.name == MARGINS and not (margins / MANIFEST).exists() else margins
    try:
        manifest = read_manifest(release)
    except NotOfRelease as fault:
        raise Refused(f"{release}: {fault}; name a release by das tda estimate, as OUT/us") from None
    try:
        options, states, jurisdiction = manifest["options"], manifest["states"], str(manifest["region"]).lower()
        pl94, free, us_level = options["pl94"], bool(options["free"]), manifest["spine"]["us_level"]
        good = (
            pl94
            and "persons" in manifest["products"]
            and jurisdiction in ("us", "pr")
            and {*EVERYWHERE}.issuperset(states)
        )
    except (KeyError, TypeError):  # anybody may have written it
        good = False
    if not good:
        raise Refused(
            f"{release}: no margins of the cells of P1 to P5: make them with "
            "das tda estimate NMF OUT --estimator gls --count pl94 --free"
        )
    notes: list[str] = []
    place = _find_product(product, jurisdiction)
    with ReleaseDatabase(release, place) as database:
        database.execute(
            "CREATE TABLE cells (level VARCHAR, geocode VARCHAR, query VARCHAR, ours DOUBLE, our_error DOUBLE, "
            "theirs DOUBLE, their_error DOUBLE)"
        )
        for level in WIDTHS if us_level else [level for level in WIDTHS if level != US]:
            files = _list_files(place, level, states)
            if not files:
                notes.append(f"{level}: the Bureau's estimates are not there")
                continue
            _load_theirs(database, level, files)
            _load_ours(database, release, level, states)
            notes += _join(database, level)
        if not database.execute("SELECT count(*) FROM cells").fetchall()[0][0]:
            raise Refused(f"{place}: no cell of the states {', '.join(states)} is in both")
        database.execute(_scored(free))
        by_query = _summed(database, "query")
        by_table = _summed(database, "table_name")
        if out is not None:
            with new_folder(out) as folder:
                cells = folder / "cells.parquet"
                rows = database.batches("SELECT * EXCLUDE table_name FROM scored")
                with pq.ParquetWriter(cells, rows.schema) as file:
                    for batch in rows:
                        file.write_batch(batch)
                by_query.to_csv(folder / "by_query.csv", index=False, float_format="%.6g")
    return Comparison(free, by_query, by_table, notes)


def _find_product(folder: Path, jurisdiction: str) -> Path:
    """Return the folder of a jurisdiction: in the given one, that itself, or one level below.

    Raises Refused where there is none.
    """
    places = [folder / jurisdiction, folder]
    places += sorted(path / jurisdiction for path in folder.glob("*") if path.is_dir())
    for place in places:
        if any((place / level).is_dir() for level in WIDTHS if level != US):
            return place
    raise Refused(
        f"{folder}: no folder {jurisdiction} with State, County or Tract: give the folder of the Bureau's least "
        "squares estimates, as downloaded"
    )


def _list_files(product: Path, level: str, states: Iterable[str]) -> Files:
    """Return the files of a level in these states (two digits), or of the US. No link is followed."""
    files = {}
    for top in [product / level] if level == US else [product / level / f"State={state}" for state in states]:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if not path.isascii() and path != path.encode(errors="replace").decode():
                    raise Refused(f"{path!a}: the name of a file that is no text")
                if name.endswith(".csv") and os.path.isfile(path) and not os.path.islink(path):
                    files[path] = "".join(NAMED.findall(os.path.relpath(folder, product / level)))
    return files


def _load_theirs(database: ReleaseDatabase, level: str, files: Files) -> None:
    """Make the table of the Bureau's estimates of a level: geocode, query, estimate, std_dev of every row of the files.

    Raises Refused where a file has other columns, a value that is no such number, a geocode that is not its folder's,
    or a row twice.
    """
    for path in files:
        _check_header(path)
    database.register("files", pa.table({"filename": [*files], "folder": [*files.values()]}))
    read = "FROM read_csv($paths, delim = '|', header = true, skip = 0, all_varchar = true, filename = true, "
    read += "hive_partitioning = false, union_by_name = true)"
    try:
        database.execute(
            "CREATE OR REPLACE TABLE theirs AS "
            "SELECT filename, files.folder, coalesce(geocode, '') AS geocode, query, "
            f"TRY_CAST(estimate AS DOUBLE) AS estimate, TRY_CAST(std_dev AS DOUBLE) AS std_dev {read} "
            "JOIN files USING (filename)",
            {"paths": [*files]},
        )
    except duckdb.Error as error:
        for path in files:
            try:
                database.execute(f"SELECT count(COLUMNS(*)) {read}", {"paths": [path]}).fetchall()
            except duckdb.Error as fault:
                raise Refused(f"{path} is no such table: {reason_of(fault)}") from None
        raise Refused(f"the Bureau's estimates, level {level}: {reason_of(error)}") from None
    rules = {
        f"a geocode that is not {WIDTHS[level]} digits": f"NOT regexp_full_match(geocode, '[0-9]{{{WIDTHS[level]}}}')",
        "a geocode that is not its folder's": "geocode <> folder",
        "a row without its query": "query IS NULL",
        "a value of estimate that is no number": "estimate IS NULL OR NOT isfinite(estimate)",
        "a value of std_dev that is no number": "std_dev IS NULL OR NOT isfinite(std_dev)",
        "a negative std_dev": "std_dev < 0",
    }
    _check_rows(database, "theirs", "filename", rules)


def _load_ours(database: ReleaseDatabase, release: Path, level: str, states: list[str]) -> None:
    """Make the table of our margins of a level's tabulation geounits."""
    folder = FOLDERS.get(level.lower(), level)
    names = ", ".join(f"'{cell.name}'" for cells in PERSON_TABLES.values() for cell in cells)
    database.execute(
        "CREATE OR REPLACE TABLE ours (geocode VARCHAR, query VARCHAR, estimate DOUBLE, standard_error DOUBLE)"
    )
    for state in [US] if level == US else states:
        path = path_in(release, f"{MARGINS}/persons/{folder}/{state}.parquet")
        try:
            columns = database.execute("SELECT name FROM parquet_schema($path)", {"path": str(path)}).fetchall()
            if len(set(columns)) < len(columns):
                raise Refused(f"{path}: a column is there twice")
            database.execute(
                "INSERT INTO ours SELECT geounit, count, estimate, standard_error "
                f"FROM {database.parquet(path)} WHERE count IN ({names})"
            )
        except duckdb.Error as error:
            raise Refused(f"{path} is no table of margins: {reason_of(error)}") from None
        wrong = "NOT coalesce(isfinite(estimate) AND isfinite(standard_error) AND standard_error >= 0, false)"
        rule = "a margin without its geocode, estimate or standard error"
        _check_rows(database, "ours", database.value(str(path)), {rule: f"{wrong} OR geocode IS NULL"})


def _check_rows(database: ReleaseDatabase, table: str, file: str, rules: Mapping[str, str]) -> None:
    """Refuse a table with a row that is wrong, or with two of one cell.

    file: the SQL of the name of a row's file. rules: what may be wrong, with the SQL of the rows with which it is.
    """
    for rule, condition in rules.items():
        if found := database.execute(f"SELECT {file} FROM {table} WHERE {condition} LIMIT 1").fetchone():
            raise Refused(f"{found[0]}: {rule}")
    twice = f"SELECT any_value({file}), geocode, query FROM {table} GROUP BY geocode, query HAVING count(*) > 1 LIMIT 1"
    if found := database.execute(twice).fetchone():
        raise Refused(f"{found[0]}: {found[2]} of {found[1]} is there twice")


def _check_header(path: str) -> None:
    try:
        with open(path, "rb") as file:
            columns = file.readline(LARGEST_HEADER).decode("utf-8", "replace").strip().split("|")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    if missing := [column for column in COLUMNS if columns.count(column) != 1]:
        raise Refused(f"{path}: not one column {missing[0]}; its first line is {ascii('|'.join(columns))[:120]}")


def _join(database: ReleaseDatabase, level: str) -> Iterator[str]:
    """Add the cells that both have; yield a note about those that one lacks."""
    database.execute(
        f"INSERT INTO cells SELECT '{level}', geocode, query, ours.estimate, standard_error, theirs.estimate, std_dev "
        "FROM ours JOIN theirs USING (geocode, query)"
    )
    for one, other, whose in (
        ("ours", "theirs", "the Bureau's estimates lack"),
        ("theirs", "ours", "the margins lack"),
    ):
        lacking = f"FROM {one} ANTI JOIN {other} USING (geocode, query)"
        found = database.execute(f"SELECT count(*), count(DISTINCT geocode), min(geocode) {lacking}").fetchall()
        cells, geounits, first = found[0]
        if cells:
            yield f"{level}: {whose} {cells:,} cells of {geounits:,} geounits, the first {first}"


def _scored(free: bool) -> str:
    """Return the SQL that makes the table of all cells with difference and, if free, z."""
    spread = "our_error ** 2 - their_error ** 2"
    z = f"CASE WHEN {spread} >= {SHARPEST} * our_error AND our_error > 0 THEN (ours - theirs) / sqrt({spread}) END"
    return (
        "CREATE TABLE scored AS SELECT *, ours - theirs AS difference, "
        f"{z if free else 'NULL::DOUBLE'} AS z, 'P' || (substr(query, 2, 3)::INT)::VARCHAR AS table_name FROM cells"
    )


def _summed(database: ReleaseDatabase, by: str) -> pd.DataFrame:
    """Return the sums of every level and query (or table)."""
    order = "list_position(['US', 'State', 'County', 'Tract'], level)"
    table = database.execute(f"SELECT level, {by}, {SUMS} FROM scored GROUP BY level, {by} ORDER BY {order}, {by}").df()
    number, square = table["with_z"], table["with_z"] * table["mean_z2"]
    inside = square.between(chi2.ppf(CHANCE / 2, number), chi2.isf(CHANCE / 2, number))
    table["alike"] = inside.where(number > 0, None)
    return table


def described(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison for JSON; null where there is no z."""
    rows = {"by_query": comparison.by_query, "by_table": comparison.by_table.drop(columns="alike")}
    tables = {name: table.astype(object).where(table.notna(), None).to_dict("records") for name, table in rows.items()}
    return {"verdict": comparison.verdict, "free": comparison.free, "notes": comparison.notes, **tables}
