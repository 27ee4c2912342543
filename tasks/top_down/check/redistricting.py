"""Check a release of the redistricting data from its files alone: statements, counts, measurements, then margins.

What the manifest must state follows from the design in it, its tables and its measurements. Not checked, because no
file of a release shows it: the noise itself, standard errors, and, where the measurements and with them the block table
are not released, the sums over off-spine entities.

The release's own layout of measurements comes with all that the spine follows from, so the spine is made again: every
geounit has the answers of its level, under the laws of its share. In the Bureau's layout every answer has a law of the
manifest, every geounit has all answers of its level or none, the shares along the path to every block add up, and what
the files declare is in `invariants/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from pydantic import Field

from privacy.noise.exact import parse_exact
from spine.settings import Jurisdiction
from spine.top_down.queries import DETAILED
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.lifecycle.staging import PIPES
from tasks.releases.check import Check, NotChecked, check_same
from tasks.releases.manifest import mark_of
from tasks.releases.received import path_in, read_in, read_json
from tasks.releases.release_database import ReleaseDatabase, differing
from tasks.releases.statements import OF_THE_RUN, PUBLIC_FILE, Digest, Line, Unshown
from tasks.top_down.blocks import build_state
from tasks.top_down.check.counts import check_counts, check_margins
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.published.release_source import AnswerFile, BlockRelease, save_description
from tasks.top_down.release.design_file import (
    GEOGRAPHY,
    MEASUREMENTS,
    SETTINGS_PATH,
    described_measurements,
    read_description,
    read_design,
)
from tasks.top_down.release.manifest import OF_OUR_MEASUREMENTS, STATEMENTS, designed, measured
from tasks.top_down.release.measurement_files import BUREAU_FOLDER, PART
from tasks.top_down.release.nmf_layout import LOWER, TOTAL, UNITS_OF_BOUND, UPPER, RowKind, data_set_name
from tasks.top_down.release.stage_release import cell_files
from tasks.top_down.release.tables import has_measurements, spine_files
from tasks.top_down.run_plan import US, Design
from tasks.top_down.source import Validated

NO_BLOCKS = "the spine is of blocks, which are released with the measurements alone"
SOLVED = "how parents were solved is shown by no other file"
HOW_SOLVED = {
    "solved": Unshown(Annotated[dict[str, dict[str, Any]], Field()], SOLVED),
    "failed": Unshown(Annotated[list[dict[str, Any]], Field()], SOLVED),
}
NOTHING = "SELECT '' AS geounit, '' AS query, 0::FLOAT AS variance, []::BIGINT[] AS value WHERE false"
DECLARED = {  # by product and constraint, the values of a geounit, of the columns of its invariants
    "persons": {
        LOWER: ["0", *QUARTERS[1:]],
        UPPER: [f"{UNITS_OF_BOUND} * {name}::BIGINT" for name in QUARTERS],
    },
    "units": {TOTAL: [QUARTERS[0]]},
}


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    design, nation = read_design(manifest), bool(manifest["spine"]["us_level"])
    states, files = tuple(map(str, manifest["states"])), dict(manifest["public_files"])
    source, truth = manifest.get("source"), "NOT_PRIVATE" in manifest
    of_bureau, drawn = source is not None and "measured_by" not in source, not truth and "ESTIMATE" not in manifest
    unsaid = [*STATEMENTS] if truth else OF_OUR_MEASUREMENTS if of_bureau else ()
    expected = designed(design, states, files, nation=nation, drawn=drawn, unsaid=unsaid)
    with ReleaseDatabase(release) as database:
        totals: dict[str, Any] = dict(_totals(database, release, design, states))
        products = {name: _product(database, release, manifest, design, name) for name in design.products}
    return expected | {
        **({"ESTIMATE": Unshown(Line, OF_THE_RUN)} if "ESTIMATE" in manifest else {}),
        **({"source": Unshown(dict[str, Any], OF_THE_RUN)} if source is not None else {}),
        "public_files": dict.fromkeys(files, Unshown(Digest, PUBLIC_FILE)),
        "state_totals": totals or dict.fromkeys(states, Unshown(int, "no table of persons shows the declared total")),
        "spine": {
            "kind": design.kind,
            "us_level": design.with_nation(states),
            "digest": manifest["spine"]["digest"] if has_measurements(manifest) else Unshown(Digest, NO_BLOCKS),
        },
        "products": products,
    }


def _totals(database: ReleaseDatabase, release: Path, design: Design, states: tuple[str, ...]) -> dict[str, int]:
    """Return the persons of each state in its histograms, which are the declared totals; none without persons."""
    if "persons" not in design.products:
        return {}
    root = next(level for level in design.settings["persons"].levels if level != US)
    paths = {state: path_in(release, f"histograms/persons/{root}/{state}.parquet") for state in states}
    sums = {s: f"SELECT coalesce(sum(count), 0)::BIGINT FROM {database.parquet(path)}" for s, path in paths.items()}
    return {state: int(database.execute(select).fetchall()[0][0]) for state, select in sums.items()}


def _product(
    database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], design: Design, product: str
) -> dict[str, Any]:
    """Return the statements of a product: its budget, geounits, shares and laws."""
    stated, allocation = manifest["products"][product], design.allocations[product]
    levels = [
        level
        for level in design.settings[product].levels
        if level != US or design.with_nation(tuple(manifest["states"]))
    ]
    geounits: dict[str, int] = dict.fromkeys(levels, 0)
    shares: dict[str, set[Fraction]] = {level: set() for level in levels}
    for level, state in spine_files({**manifest, "products": {product: {"geounits": geounits}}}, product):
        name = f"{product}/{level}/{state}.parquet"
        select = f"SELECT count(DISTINCT geounit) FROM {database.parquet(path_in(release, f'invariants/{name}'))}"
        geounits[level] += database.execute(select).fetchall()[0][0]
        if has_measurements(manifest):
            rows = f"SELECT DISTINCT share::VARCHAR FROM {database.parquet(path_in(release, f'{MEASUREMENTS}/{name}'))}"
            shares[level] |= {parse_exact(share) for (share,) in database.execute(rows).fetchall()}
    if not has_measurements(manifest):
        shares = {level: stated_shares(stated, level) for level in levels}
    ascending = {level: sorted(own) for level, own in shares.items()}
    has_margins = any(name.startswith(f"margins/{product}/") for name in manifest["files"])
    return {
        "budget": str(allocation.budget),
        "allocation": allocation.source,
        "geounits": geounits,
        **({} if "NOT_PRIVATE" in manifest else measured(allocation, levels, ascending)),
        **({"margins": Unshown(dict[str, Any], "estimates are not made again")} if has_margins else {}),
        **HOW_SOLVED,
    }


def stated_shares(stated: Mapping[str, Any], level: str) -> set[Fraction]:
    """Return the shares that a manifest states of a level's geounits, where no measurements show them."""
    with suppress(KeyError, TypeError, ValueError):
        return {parse_exact(row["share"]) for row in stated["noise"] if row["level"] == level}
    return set()


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the lists of cells, then every count that is released twice, the measurements and the margins."""
    yield from not_checked(manifest)
    yield from check_public_files(release, manifest)
    with ReleaseDatabase(release) as database:
        for product, entry in manifest["products"].items():
            yield from check_counts(database, release, manifest, product)
            if manifest["options"].get("nmf") and "noise" in entry:
                yield BureauLayout(database, release, manifest, product).check()
            if "margins" in entry:
                yield from check_margins(database, release, manifest, product)
    if has_measurements(manifest):
        yield from check_own_layout(release, manifest)


def not_checked(manifest: Mapping[str, Any]) -> Iterator[NotChecked]:
    """Yield what no check covers: that the numbers are those of a run, and what shows no number twice."""
    yield NotChecked("names.csv*", "names are public, and of no file of the release")
    yield NotChecked("points.csv*", "points are public, and of no file of the release")
    if not has_measurements(manifest):
        yield NotChecked("products.*.noise.*.share", "the noisy measurements are not released")
        yield NotChecked("histograms/*/entities/*", "the blocks of entities are released with the measurements alone")
    else:
        yield NotChecked("measurements/*: value", "noise is shown by nothing but itself")
        areas = ", ".join(name for name in GEOGRAPHY if name != "geocode")
        yield NotChecked(f"measurements/blocks/*: {areas}", "the areas of blocks are public, and in no other file")
    if any(name.startswith("margins/") for name in manifest["files"]):
        yield NotChecked("margins/*: estimate", "estimates are not made again")
        yield NotChecked("margins/*: standard_error", "estimates are not made again")


def check_public_files(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Compare the lists of cells with the products, and the description of the measurements with the manifest."""
    design = read_design(manifest)
    for product in design.products:
        for file, table in cell_files(product, pl94=design.pl94).items():
            content = pa.BufferOutputStream()
            pa.csv.write_csv(table, content, PIPES)
            same = content.getvalue().to_pybytes() == read_in(release, file)
            yield Check(file, f"{len(table)} rows", () if same else ("it is not the list of the product's cells",))
    if has_measurements(manifest):
        facts = mark_of(manifest), tuple(manifest["states"]), manifest["spine"]["us_level"], manifest["public_files"]
        made = manifest["spine"]["digest"], manifest["state_totals"]
        content_of = described_measurements(manifest["run"], design, Validated("", (), *facts), *made)
        stated = read_json(release, SETTINGS_PATH)
        yield check_same(SETTINGS_PATH, "the manifest", json.loads(json.dumps(content_of)), stated)


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
        for branch in source.branches:
            build_state(source, branch)
        yield check_same("the spine", "of the released blocks", source.spine_digest(), manifest["spine"]["digest"])
        for product in source.design.products:
            levels = sorted(each for each in source.branch_levels if each[0].product == product)  # state by state
            files = (AnswerFile.of(source, release / MEASUREMENTS, *each) for each in levels)
            yield check_answers(f"{MEASUREMENTS}/ of {product}", (file.all_answers() for file in files))


@dataclass(frozen=True)
class BureauLayout:
    """The files of a product in the layout of the Census Bureau's."""

    database: ReleaseDatabase
    release: Path
    manifest: Mapping[str, Any]
    product: str

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
