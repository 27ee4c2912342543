"""Check measurements in the layout of the Census Bureau's files against the rest of a release.

What is declared is that of `invariants/`; every answer has a law of the manifest, and every geounit all answers of its
level or none; the shares along each path add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from privacy.noise.exact import parse_exact
from spine.top_down.queries import DETAILED
from tasks.lifecycle.check import Check
from tasks.lifecycle.release_database import ReleaseDatabase, parquet
from tasks.top_down.check.counts import check_paths, differing
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.release.measurement_files import FOLDER, PART
from tasks.top_down.release.nmf_layout import LOWER, TOTAL, UNITS_OF_BOUND, UPPER, data_set_name
from tasks.top_down.release.tables import spine_files
from tasks.top_down.run_plan import US, ProductName

NOTHING = "SELECT '' AS geounit, '' AS query, 0::FLOAT AS variance, []::BIGINT[] AS value WHERE false"

DECLARED = {  # by product and constraint, the values of a geounit, of the columns of its invariants
    "persons": {
        LOWER: ["0", *QUARTERS[1:]],
        UPPER: [f"{UNITS_OF_BOUND} * {name}::BIGINT" for name in QUARTERS],
    },
    "units": {TOTAL: [QUARTERS[0]]},
}


def _names(manifest: Mapping[str, Any], product: ProductName, level: str, state: str, kind: str) -> list[str]:
    """Return the files of a level of a state: without its AIAN part and of it."""
    region = "pr" if manifest["region"] == "PR" else "us"
    place = f"{FOLDER}/{data_set_name(region, product)}/{level}.parquet/{kind}"  # type: ignore[arg-type]
    return [f"{place}/{folder}{PART}" for folder in ([""] if state == US else [f"State={f}{state}/" for f in "01"])]


def check_measurement_files(release: Path, manifest: Mapping[str, Any], product: ProductName) -> Iterator[Check]:
    """Check the files of a product, if the release has any in this layout."""
    if not manifest["options"].get("nmf"):
        return
    entry, faults, answers = manifest["products"][product], [], 0
    with ReleaseDatabase() as database:
        database.register("laws", _laws(entry))
        for level, state in spine_files(manifest, product):
            files = LevelFiles(database, release, manifest, product, level, state)
            answers += files.answers
            rules = (*files.differ_from_invariants(), *files.break_laws())
            faults += [f"level {level}, state {state}: {wrong:,} {rule}" for wrong, rule in rules if wrong]
        shares = {level: parse_exact(share) for level, share in entry["shares"].items() if level != US}

        def shares_in(level: str, state: str) -> str:
            return LevelFiles(database, release, manifest, product, level, state).shares()

        faults += check_paths(database, release, product, manifest["states"], shares, shares_in)[0]
    yield Check(f"{FOLDER}/ of {product}", f"{answers:,} measurements", tuple(faults))


class LevelFiles(NamedTuple):
    """The files of a level of a state, or of the US. Rules are yielded with the number of rows that break them."""

    database: duckdb.DuckDBPyConnection
    release: Path
    manifest: Mapping[str, Any]
    product: ProductName
    level: str
    state: str

    def rows(self, kind: str) -> str:
        """Return the SELECT of geounit, query, variance and value; queries as the manifest writes them."""
        names = _names(self.manifest, self.product, self.level, self.state, kind)
        there = [self.release / name for name in names if name in self.manifest["files"]]
        if not there:
            return NOTHING
        query = "replace(regexp_replace(query_name, '_(dpq|con)$', ''), ' ', '')"
        columns = f"geocode AS geounit, {query} AS query, variance, value::BIGINT[] AS value"
        return f"SELECT {columns} FROM {parquet(*there)}"

    @property
    def answers(self) -> int:
        """Return the number of answers."""
        return self._count(f"SELECT count(*) FROM ({self.rows('DPQuery')})")

    def _count(self, select: str) -> int:
        return int(self.database.execute(select).fetchall()[0][0])

    def _of_release(self, folder: str) -> str:
        return parquet(self.release / folder / self.product / self.level / f"{self.state}.parquet")

    def differ_from_invariants(self) -> Iterator[tuple[int, str]]:
        """Compare what is declared of each geounit with the release's invariants."""
        for query, declared in DECLARED[self.product].items():
            values = f"[{', '.join(declared)}]::BIGINT[] AS value"
            expected = f"SELECT geounit::VARCHAR AS geounit, {values} FROM {self._of_release('invariants')}"
            found = f"SELECT geounit, value FROM ({self.rows('Constraint')}) WHERE query = '{query}'"
            yield differing(self.database, found, expected), f"rows of {query} are not what is declared"

    def break_laws(self) -> Iterator[tuple[int, str]]:
        """Look for answers of no law of the manifest, and for geounits without all queries of their level."""
        rows, laws = self.rows("DPQuery"), f"(SELECT * FROM laws WHERE level = '{self.level}')"
        without = f"SELECT count(*) FROM ({rows}) ANTI JOIN {laws} USING (query, variance)"
        yield self._count(without), "answers have a law that is not in the manifest"
        noise = self.manifest["products"][self.product]["noise"]
        asked = len({row["query"] for row in noise if row["level"] == self.level})
        lacking = f"HAVING count(*) <> {asked} OR count(DISTINCT query) <> {asked}"
        found = f"SELECT count(*) FROM (SELECT geounit FROM ({rows}) GROUP BY geounit {lacking})"
        yield self._count(found), f"geounits do not have the {asked} answers of their level, each once"

    def shares(self) -> str:
        """Return the SELECT of each geounit's share of the budget, by the law of its detailed query."""
        laws = f"(SELECT * FROM laws WHERE level = '{self.level}' AND query = '{DETAILED}')"
        return f"SELECT DISTINCT geounit, share FROM ({self.rows('DPQuery')}) JOIN {laws} USING (query, variance)"


def _laws(entry: Mapping[str, Any]) -> pa.Table:
    """Return the laws of the manifest as a table; variances as the layout holds them."""
    noise = entry["noise"]
    columns = {name: pa.array([str(row[name]) for row in noise], pa.string()) for name in ("level", "query", "share")}
    return pa.table({**columns, "variance": pa.array(np.array([row["variance"] for row in noise], np.float32))})
