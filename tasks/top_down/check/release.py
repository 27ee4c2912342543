"""Check a release of the TopDown Algorithm from its files alone: budgets and laws, counts, then measurements.

Every answer has a law of the manifest, and every geounit all answers of its level or none; the shares of the budget
along the path to every block add up; what the Census Bureau's layout declares is that of `invariants/`.

Not checked, because no file of a release shows it: the noise itself, standard errors, and, where the measurements and
with them the block table are not released, the sums over off-spine entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privacy.noise.exact import parse_exact
from spine.settings import Jurisdiction
from spine.top_down.queries import DETAILED
from tasks.releases.check import Check, NotChecked
from tasks.releases.received import path_in
from tasks.releases.release_database import ReleaseDatabase, differing
from tasks.top_down.check.counts import check_counts, check_margins
from tasks.top_down.check.statements import check_public_files, not_checked
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.release.description import FOLDER
from tasks.top_down.release.measurement_files import FOLDER as BUREAU_FOLDER
from tasks.top_down.release.measurement_files import PART
from tasks.top_down.release.nmf_layout import LOWER, TOTAL, UNITS_OF_BOUND, UPPER, RowKind, data_set_name
from tasks.top_down.release.tables import has_measurements, spine_files
from tasks.top_down.run_plan import US, ProductName

EXACT = ("share", "variance_numerator", "variance_denominator")  # columns of a law that the Bureau's layout has not
NOTHING = "SELECT '' AS geounit, '' AS query, 0::FLOAT AS variance, []::BIGINT[] AS value WHERE false"
DECLARED = {  # by product and constraint, the values of a geounit, of the columns of its invariants
    "persons": {
        LOWER: ["0", *QUARTERS[1:]],
        UPPER: [f"{UNITS_OF_BOUND} * {name}::BIGINT" for name in QUARTERS],
    },
    "units": {TOTAL: [QUARTERS[0]]},
}


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the lists of cells, then every count that is released twice, the measurements and the margins."""
    yield from not_checked(manifest)
    yield from check_public_files(release, manifest)
    with ReleaseDatabase(release) as database:
        for product, entry in manifest["products"].items():
            yield from check_counts(database, release, manifest, product)
            if "noise" in entry:
                yield from check_measurements(database, release, manifest, product)
            if "margins" in entry:
                yield from check_margins(database, release, manifest, product)


def check_measurements(
    database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], product: ProductName
) -> Iterator[Check]:
    """Check the measurements of a product in each layout that the release has."""
    layouts = [OwnLayout] * has_measurements(manifest) + [BureauLayout] * bool(manifest["options"].get("nmf"))
    for layout in layouts:
        yield layout(database, release, manifest, product).check()


@dataclass(frozen=True)
class OwnLayout:
    """The folder measurements/ of a product."""

    database: ReleaseDatabase
    release: Path
    manifest: Mapping[str, Any]
    product: ProductName
    folder: ClassVar[str] = FOLDER
    law: ClassVar[tuple[str, ...]] = ("query", "variance", *EXACT)
    number: ClassVar[Any] = np.float64
    declared: ClassVar[Mapping[str, Mapping[str, list[str]]]] = {"persons": {}, "units": {}}

    @property
    def entry(self) -> Mapping[str, Any]:
        """Return what the manifest says of the product."""
        found: Mapping[str, Any] = self.manifest["products"][self.product]
        return found

    def check(self) -> Check:
        """Check every level and state, and the shares along the paths."""
        self.database.register("laws", self.laws())
        faults, answers = [], 0
        for level, state in spine_files(self.manifest, self.product):
            answers += self.count(f"SELECT count(*) FROM ({self.rows(level, state)})")
            rules = (*self.break_laws(level, state), *self.differ_from_invariants(level, state))
            faults += [f"level {level}, state {state}: {wrong:,} {rule}" for wrong, rule in rules if wrong]
        faults += self.break_paths()
        return Check(f"{self.folder}/ of {self.product}", f"{answers:,} measurements", tuple(faults))

    def laws(self) -> pa.Table:
        """Return the laws of the manifest as a table; variances as the layout holds them."""
        noise = self.entry["noise"]
        exact = [parse_exact(row["sigma_squared" if "sigma_squared" in row else "scale"]) for row in noise]
        columns = {name: [str(row[name]) for row in noise] for name in ("level", "query", "share")}
        columns |= {"variance_numerator": [str(each.numerator) for each in exact]}
        columns |= {"variance_denominator": [str(each.denominator) for each in exact]}
        texts = {name: pa.array(column, pa.string()) for name, column in columns.items()}
        return pa.table({**texts, "variance": pa.array(np.array([row["variance"] for row in noise], self.number))})

    def rows(self, level: str, state: str, kind: RowKind = "DPQuery") -> str:
        """Return the SELECT of the geounit of every answer, with the columns of its law."""
        texts = ", ".join(f"{name}::VARCHAR AS {name}" for name in ("geounit", "query", *EXACT))
        return f"SELECT {texts}, variance FROM {self.file(FOLDER, level, state)}"

    def file(self, folder: str, level: str, state: str) -> str:
        """Return a file of the release, by level and state, in SQL."""
        return self.database.parquet(path_in(self.release, f"{folder}/{self.product}/{level}/{state}.parquet"))

    def count(self, select: str) -> int:
        """Return the number that a SELECT finds."""
        return int(self.database.execute(select).fetchall()[0][0])

    def break_laws(self, level: str, state: str) -> Iterator[tuple[int, str]]:
        """Look for answers of no law of the manifest, and for geounits without all queries of their level."""
        rows, laws = self.rows(level, state), f"(SELECT * FROM laws WHERE level = {self.database.value(level)})"
        without = f"SELECT count(*) FROM ({rows}) ANTI JOIN {laws} USING ({', '.join(self.law)})"
        yield self.count(without), "answers have a law that is not in the manifest"
        asked = len({row["query"] for row in self.entry["noise"] if row["level"] == level})
        lacking = f"HAVING count(*) <> {asked} OR count(DISTINCT query) <> {asked}"
        found = f"SELECT count(*) FROM (SELECT geounit FROM ({rows}) GROUP BY geounit {lacking})"
        yield self.count(found), f"geounits do not have the {asked} answers of their level, each once"

    def differ_from_invariants(self, level: str, state: str) -> Iterator[tuple[int, str]]:
        """Compare what the layout declares of each geounit, if anything, with the release's invariants."""
        for query, declared in self.declared[self.product].items():
            values = f"[{', '.join(declared)}]::BIGINT[] AS value"
            expected = f"SELECT geounit::VARCHAR AS geounit, {values} FROM {self.file('invariants', level, state)}"
            found = f"SELECT geounit, value FROM ({self.rows(level, state, 'Constraint')}) WHERE query = '{query}'"
            yield differing(self.database, found, expected), f"rows of {query} are not what is declared"

    def break_paths(self) -> Iterator[str]:
        """Find paths to a block on which the shares of the geounits do not sum to those of all levels."""
        shares = {level: parse_exact(share) for level, share in self.entry["shares"].items() if level != US}
        total = sum(shares.values(), Fraction(0))
        for state in self.manifest["states"]:
            columns, joins = [], []
            for number, level in enumerate(shares):
                joined = f"level{number}"
                laws = f"(SELECT * FROM laws WHERE level = {self.database.value(level)} AND query = '{DETAILED}')"
                own = (
                    f"SELECT geounit, share FROM ({self.rows(level, state)}) JOIN {laws} USING ({', '.join(self.law)})"
                )
                width = f"(SELECT coalesce(max(length(geounit)), 0) FROM {self.file('invariants', level, state)})"
                joins.append(f"LEFT JOIN ({own}) AS {joined} ON {joined}.geounit = left(block.geounit, {width})")
                columns.append(f"coalesce({joined}.share, '0')")
            blocks = f"{self.file('invariants', [*shares][-1], state)} AS block {' '.join(joins)}"
            paths = f"SELECT {', '.join(columns)}, count(*) FROM {blocks} GROUP BY ALL"
            for *path_shares, count in self.database.execute(paths).fetchall():
                if (spent := sum(map(parse_exact, path_shares), Fraction(0))) != total:
                    yield f"state {state}: the measurements of {count:,} blocks share {spent}, not {total}"


@dataclass(frozen=True)
class BureauLayout(OwnLayout):
    """The files of a product in the layout of the Census Bureau's."""

    folder: ClassVar[str] = BUREAU_FOLDER
    law: ClassVar[tuple[str, ...]] = ("query", "variance")
    number: ClassVar[Any] = np.float32
    declared: ClassVar[Mapping[str, Mapping[str, list[str]]]] = DECLARED

    def rows(self, level: str, state: str, kind: RowKind = "DPQuery") -> str:
        """Return the SELECT of geounit, query, variance and value; queries as the manifest writes them."""
        jurisdiction: Jurisdiction = "pr" if self.manifest["region"] == "PR" else "us"
        place = f"{self.folder}/{data_set_name(jurisdiction, self.product)}/{level}.parquet/{kind}"
        parts = [""] if state == US else [f"State={flag}{state}/" for flag in "01"]  # without its AIAN part, and of it
        names = [name for part in parts if (name := f"{place}/{part}{PART}") in self.manifest["files"]]
        if not names:
            return NOTHING
        query = "replace(regexp_replace(query_name, '_(dpq|con)$', ''), ' ', '')"
        columns = f"geocode AS geounit, {query} AS query, variance, value::BIGINT[] AS value"
        files = self.database.parquet(*(path_in(self.release, name) for name in names))
        return f"SELECT {columns} FROM {files}"
