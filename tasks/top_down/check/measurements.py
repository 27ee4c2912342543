"""Check the noisy measurements of a release, in its own layout and in the Census Bureau's.

The release's own layout comes with all that the spine follows from, so the spine is made again: every geounit has the
answers of its level, under the laws of its share. In the Bureau's layout every answer has a law of the manifest, every
geounit has all answers of its level or none, the shares along the path to every block add up, and what the files
declare is in `invariants/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from privacy.noise.exact import parse_exact
from spine.settings import Jurisdiction
from spine.top_down.queries import DETAILED
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.releases.check import Check, check_same
from tasks.releases.received import path_in
from tasks.releases.release_database import ReleaseDatabase, differing
from tasks.top_down.blocks import build_state
from tasks.top_down.input.block_files import QUARTERS
from tasks.top_down.published.release_source import AnswerFile, BlockRelease, save_description
from tasks.top_down.release.design_file import MEASUREMENTS, read_description
from tasks.top_down.release.measurement_files import BUREAU_FOLDER, PART
from tasks.top_down.release.nmf_layout import LOWER, TOTAL, UNITS_OF_BOUND, UPPER, RowKind, data_set_name
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


def check_answers(what: str, files: Iterable[Iterator[tuple[Any, ...]]]) -> Check:
    """Check that answers are of the law of their share, each once, and that none is missing where all are released.

    files: what reads each (`AnswerFile`). An answer is whole numbers that a possible count and noise of this law can
    explain. Which of them was drawn, no file shows; and the estimates, which follow from all answers, are made again by
    `das tda estimate`, not here: their arithmetic is floating-point, so another machine may round them otherwise.
    """
    rows, faults = 0, []
    for file in files:
        try:
            rows += sum(len(geounit) for _, geounit, *_ in file)
        except Refused as fault:
            faults.append(str(fault))
    return Check(what, f"{rows:,} rows", tuple(faults))


def check_own_layout(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Make the spines of the released blocks again; compare their digest with the manifest's, and check all answers."""
    use_kernels(state_home())
    with TemporaryDirectory(prefix="das-check-") as folder:
        source = BlockRelease(Path(folder) / "runs/check")
        save_description(source, read_description(release / MEASUREMENTS), {}, ())
        for pair in source.product_states:
            build_state(source, *pair)
        yield check_same("the spine", "of the released blocks", source.spine_digest(), manifest["spine"]["digest"])
        for product in source.design.products:
            levels = sorted(each for each in source.product_levels if each[0] == product)  # state by state
            files = (AnswerFile.of(source, release / MEASUREMENTS, *each) for each in levels)
            yield check_answers(f"{MEASUREMENTS}/ of {product}", (file.all_answers() for file in files))


@dataclass(frozen=True)
class BureauLayout:
    """The files of a product in the layout of the Census Bureau's."""

    database: ReleaseDatabase
    release: Path
    manifest: Mapping[str, Any]
    product: ProductName

    @property
    def entry(self) -> Mapping[str, Any]:
        """Return the manifest's statement about the product."""
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
        return Check(f"{BUREAU_FOLDER}/ of {self.product}", f"{answers:,} measurements", tuple(faults))

    def laws(self) -> pa.Table:
        """Return the laws of the manifest as a table; variances as the layout holds them."""
        noise = self.entry["noise"]
        texts = {name: pa.array([str(row[name]) for row in noise]) for name in ("level", "query", "share")}
        return pa.table({**texts, "variance": pa.array(np.array([row["variance"] for row in noise], np.float32))})

    def rows(self, level: str, state: str, kind: RowKind = "DPQuery") -> str:
        """Return the SELECT of geounit, query, variance and value; queries as the manifest writes them."""
        jurisdiction: Jurisdiction = "pr" if self.manifest["region"] == "PR" else "us"
        place = f"{BUREAU_FOLDER}/{data_set_name(jurisdiction, self.product)}/{level}.parquet/{kind}"
        parts = [""] if state == US else [f"State={flag}{state}/" for flag in "01"]  # without its AIAN part, and of it
        names = [name for part in parts if (name := f"{place}/{part}{PART}") in self.manifest["files"]]
        if not names:
            return NOTHING
        query = "replace(regexp_replace(query_name, '_(dpq|con)$', ''), ' ', '')"
        columns = f"geocode AS geounit, {query} AS query, variance, value::BIGINT[] AS value"
        files = self.database.parquet(*(path_in(self.release, name) for name in names))
        return f"SELECT {columns} FROM {files}"

    def invariants(self, level: str, state: str) -> str:
        """Return the file of a level's invariants in SQL."""
        return self.database.parquet(path_in(self.release, f"invariants/{self.product}/{level}/{state}.parquet"))

    def count(self, select: str) -> int:
        """Return the number that a SELECT finds."""
        return int(self.database.execute(select).fetchall()[0][0])

    def break_laws(self, level: str, state: str) -> Iterator[tuple[int, str]]:
        """Look for answers of no law of the manifest, and for geounits without all queries of their level."""
        rows, laws = self.rows(level, state), f"(SELECT * FROM laws WHERE level = {self.database.value(level)})"
        without = f"SELECT count(*) FROM ({rows}) ANTI JOIN {laws} USING (query, variance)"
        yield self.count(without), "answers have a law that is not in the manifest"
        asked = len({row["query"] for row in self.entry["noise"] if row["level"] == level})
        lacking = f"HAVING count(*) <> {asked} OR count(DISTINCT query) <> {asked}"
        found = f"SELECT count(*) FROM (SELECT geounit FROM ({rows}) GROUP BY geounit {lacking})"
        yield self.count(found), f"geounits do not have the {asked} answers of their level, each once"

    def differ_from_invariants(self, level: str, state: str) -> Iterator[tuple[int, str]]:
        """Compare what the files declare of each geounit with the release's invariants."""
        for query, declared in DECLARED[self.product].items():
            values = f"[{', '.join(declared)}]::BIGINT[] AS value"
            expected = f"SELECT geounit::VARCHAR AS geounit, {values} FROM {self.invariants(level, state)}"
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
                own = f"SELECT geounit, share FROM ({self.rows(level, state)}) JOIN {laws} USING (query, variance)"
                width = f"(SELECT coalesce(max(length(geounit)), 0) FROM {self.invariants(level, state)})"
                joins.append(f"LEFT JOIN ({own}) AS {joined} ON {joined}.geounit = left(block.geounit, {width})")
                columns.append(f"coalesce({joined}.share, '0')")
            blocks = f"{self.invariants([*shares][-1], state)} AS block {' '.join(joins)}"
            paths = f"SELECT {', '.join(columns)}, count(*) FROM {blocks} GROUP BY ALL"
            for *path_shares, count in self.database.execute(paths).fetchall():
                if (spent := sum(map(parse_exact, path_shares), Fraction(0))) != total:
                    yield f"state {state}: the measurements of {count:,} blocks share {spent}, not {total}"
