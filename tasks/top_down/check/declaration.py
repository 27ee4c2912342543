"""Check a declaration's release from its files alone: its statements, sums, measurements and declared figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spine.declaration.declaration import Declaration
from spine.geography import IntArray
from spine.noise import distinct_shares
from spine.top_down.histogram import Estimates, Product, from_entries
from spine.top_down.queries import query_group
from tasks.releases.check import Check, NotChecked
from tasks.releases.manifest import mark_of
from tasks.releases.received import NotOfRelease, path_in, read_in
from tasks.releases.release_database import ReleaseDatabase, differing, identifier
from tasks.releases.statements import OF_THE_RUN, PUBLIC_FILE, Digest, Line, Unshown
from tasks.top_down.check.counts import margin_faults
from tasks.top_down.check.redistricting import HOW_SOLVED, SOLVED, check_answers, stated_shares
from tasks.top_down.choices import ESTIMATORS
from tasks.top_down.declared.dhc_fields import microdata_of, microdata_table
from tasks.top_down.declared.dhc_microdata import microdata
from tasks.top_down.declared.explain import explain
from tasks.top_down.declared.measurements import read_measurements
from tasks.top_down.declared.public_tables import Declared, PublicTables, assemble
from tasks.top_down.declared.release import declaration_statements, names_text, table_statements
from tasks.top_down.declared.source import contradictions, names_of, stated_states
from tasks.top_down.declared.tables import (
    COUNT,
    ESTIMATE_MARGIN,
    MARGINS,
    declaration_of,
    geounit_columns,
    is_full,
    names_file,
    released_levels,
)
from tasks.top_down.declared.wide import defined_answers
from tasks.top_down.published.release_source import AnswerFile, joined_codes
from tasks.top_down.release.design_file import MEASUREMENTS

QUERY, PART = "of-query", "of-part"  # which no axis is called
NOT_RELEASED = "the public tables are released with the measurements alone"
OF_TABLES: dict[str, Any] = {  # the statements that follow from them
    "declared_unchanged": list[str],
    "constraints": Line,
    "geounits": dict[str, int],
    "public_files": dict[str, Digest],
}


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    truth, estimate, declaration = "NOT_PRIVATE" in manifest, "ESTIMATE" in manifest, declaration_of(manifest)
    estimator = None if truth else ESTIMATORS[ESTIMATORS.index(manifest["estimator"])]
    shares = {} if truth else {level: sorted(stated_shares(manifest, level)) for level in declaration.allocation.levels}
    own: dict[str, Any] = {"spent": None} | {name: Unshown(kind, NOT_RELEASED) for name, kind in OF_TABLES.items()}
    text, drawn, later = manifest["declaration"], not truth and not estimate, False
    if drawn:
        public, declared = _read_public(release, manifest)
        text, shares = json.loads(public.text), distinct_shares(declared.hierarchy.spine)
        later = not declared.hindrance
        digests = dict.fromkeys(public.digests, Unshown(Digest, PUBLIC_FILE))
        own = {"spent": declared.spend.as_json(), "states": stated_states(declared)}
        own |= table_statements(declared, digests, explain(declared))
        own |= {"answers": _count_answers(release, declared)} if declared.is_wide else {}
    by = {"ESTIMATE": Unshown(Line, OF_THE_RUN), "measured_by": Unshown(Line, OF_THE_RUN)}
    return {
        **own,
        **declaration_statements(declaration, text, estimator, shares, drawn=drawn, later=later),
        **(by if estimate else {}),
        **HOW_SOLVED,
        "configuration_digest": Unshown(Digest, "the folders of the public files are not published"),
    }


def _count_answers(release: Path, declared: Declared) -> dict[str, dict[str, Any]]:
    """Return by level what a wide release states of its answers: those that were read are rows of its measurements."""
    found = {}
    for level, defined in defined_answers(declared).items():
        file = f"{MEASUREMENTS}/{level}.parquet"
        is_all = is_full(declared.declaration, level)
        read = Unshown(int, SOLVED) if is_all else pq.read_metadata(path_in(release, file)).num_rows
        found[level] = {"defined": defined, "read": read}
    return found


def _read_public(release: Path, manifest: Mapping[str, Any]) -> tuple[PublicTables, Declared]:
    """Return the public tables of a release. Raises NotOfRelease where they are of another declaration or run."""
    found = read_measurements(release)
    stated = manifest["run"], mark_of(manifest), manifest["estimator"]
    if (found.run, found.mark, found.estimator) != stated:
        raise NotOfRelease(f"{MEASUREMENTS}/ are of another run, mark or estimator than the manifest states")
    return found.public, assemble(found.public)


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check every level against the one below it, the answers of every geounit, and the declared figures."""
    declaration = declaration_of(manifest)
    with ReleaseDatabase(release) as database:
        yield check_levels(database, release, declaration)
        if any(name.startswith(f"{MARGINS}/") for name in manifest["files"]):
            yield NotChecked(f"{MARGINS}/*: estimate, standard_error", "estimates are not made again")
            for each in declaration.levels:
                yield from _check_margins(database, release, declaration, each.name)
    if manifest["measurements"]:
        yield NotChecked(f"{MEASUREMENTS}/*: value", "noise is shown by nothing but itself")
        _, declared = _read_public(release, manifest)
        spine = declared.hierarchy.spine
        for number, level in enumerate(spine.levels):
            columns = names_of(declared, level)(0, 0, np.arange(len(spine.starts[number])))
            file = AnswerFile(path_in(release, f"{MEASUREMENTS}/{level}.parquet"), declared.plan, number, columns)
            answers = file.all_answers() if is_full(declaration, level) else file.read_answers()
            yield check_answers(f"answers of {level}", [answers])
        yield from _check_figures(release, declared)
        yield from (_check_names(release, declared, level) for level in declared.names)
    else:
        if any(level.names for level in declaration.levels):
            yield NotChecked("names/*", NOT_RELEASED)
        yield NotChecked("declared figures", NOT_RELEASED)
        if microdata_of(declaration):
            yield NotChecked(microdata_table(declaration).parquet, NOT_RELEASED)
        if "ESTIMATE" in manifest and declaration.form.is_wide:
            yield Check("estimate", "1 release", ("of a wide table there is no estimate without its measurements",))


def check_levels(database: ReleaseDatabase, release: Path, declaration: Declaration) -> Check:
    """Check that counts are positive, of cells that a record may be in, and sums of those of the level below."""
    levels, faults, product = released_levels(declaration), list[str](), declaration.product
    files = {level: database.parquet(path_in(release, f"parquet/{level}.parquet")) for level in levels}
    for level, rows in files.items():
        wrong = database.execute(f"SELECT count(*) FROM {rows} WHERE {COUNT} <= 0").fetchall()[0][0]
        faults += [f"{level}: {wrong:,} counts are not positive"] * bool(wrong)
    for level, below in pairwise(levels):
        names = [*(column.name for column in geounit_columns(declaration, level)), *product.names]
        sums = f"SELECT {', '.join(identifier(name, names) for name in names)}, sum({COUNT})::BIGINT AS number"
        if wrong := differing(database, *(f"{sums} FROM {files[each]} GROUP BY ALL" for each in (level, below))):
            faults.append(f"{wrong:,} counts of level {level} are not sums of level {below}")
    codes = _possible_codes(product)
    database.register("possible", pa.table(codes))
    texts = ", ".join(f"{name}::VARCHAR AS {name}" for name in (identifier(name, codes) for name in codes))
    others = f"SELECT count(*) FROM (SELECT {texts} FROM {files[levels[-1]]}) NATURAL ANTI JOIN possible"
    if wrong := database.execute(others).fetchall()[0][0]:
        faults.append(f"{levels[-1]}: {wrong:,} counts are of cells that no record can be in")
    return Check("counts over the levels", f"{len(levels)} levels", tuple(faults))


def _possible_codes(product: Product) -> dict[str, pa.Array]:
    """Return by axis the codes of the cells that a record may be in."""
    at = product.coordinates_of(np.flatnonzero(product.possible))
    return {axis.name: pa.array(axis.codes).take(pa.array(at[axis.name])) for axis in product.axes}


def _check_margins(
    database: ReleaseDatabase, release: Path, declaration: Declaration, level: str
) -> Iterator[Check | NotChecked]:
    """Check a level's margins by their standard errors, and its released counts by the cells of it or a level below."""
    levels, queries, sums = [each.name for each in declaration.levels], declaration.queries(level), ""
    names = [each.name for each in geounit_columns(declaration, level)]
    geounit = "".join(f"{identifier(name, names)}, " for name in names)
    below = [each for each in released_levels(declaration) if each in levels[levels.index(level) :]]
    if below:
        cells, product = database.parquet(path_in(release, f"parquet/{below[0]}.parquet")), declaration.product
        possible, axes = _possible_codes(product), ", ".join(identifier(name, product.names) for name in product.names)
        parts = {name: query_group(product, name).coordinate[product.possible].astype(np.int64) for name in queries}
        asked = [pa.table(possible | {QUERY: [query] * len(part), PART: part}) for query, part in parts.items()]
        database.register("parts", pa.concat_tables(asked))
        keys = f"{geounit} {identifier(QUERY, [QUERY])}, {identifier(PART, [PART])}"
        sums = f"SELECT {keys}, sum({COUNT})::BIGINT FROM {cells} JOIN parts USING ({axes}) GROUP BY ALL"
    else:
        yield NotChecked(f"{MARGINS}/{level}: released", "its histogram and those of lower levels are not released")
    margins = database.parquet(path_in(release, f"{MARGINS}/{level}.parquet"))
    faults = margin_faults(database, margins, f"{geounit} query, part", ESTIMATE_MARGIN, sums)
    yield Check(f"margins of {level}", f"{len(queries)} queries", tuple(faults))


def _check_figures(release: Path, declared: Declared) -> Iterator[Check | NotChecked]:
    """Check that the counts of the leaves have the declared figures, and that the microdata are of these counts."""
    declaration, geounits = declared.declaration, declared.hierarchy.spine.blocks
    product, level = declaration.product, declaration.levels[-1].name
    if level not in released_levels(declaration):
        yield NotChecked("declared figures", f"the level {level} is not released")
        return
    table = pq.read_table(path_in(release, f"parquet/{level}.parquet"))
    own = names_of(declared, level)(0, geounits, np.arange(geounits))
    codes = joined_codes([table[name] for name in own], len(table))
    axes = [(table[axis.name].cast(pa.string()), pa.array(axis.codes)) for axis in product.axes]
    places = [
        pc.index_in(column, values) for column, values in ((codes, joined_codes([*own.values()], geounits)), *axes)
    ]
    unknown = pc.sum(reduce(pc.or_, map(pc.is_null, places))).as_py() or 0
    faults = [f"{unknown:,} rows are of no {level} that is declared, or of no cell"] * bool(unknown)
    if not unknown:
        leaf, *at = (place.to_numpy().astype(np.int64) for place in places)
        cell, count = np.ravel_multi_index(tuple(at), product.shape), table[COUNT].to_numpy()
        faults = [finding.rule for finding in contradictions(declared, 0, geounits, leaf, cell, count)]
        faults += _other_counts(declared, leaf, cell, count)
        if microdata_of(declaration):
            blocks = from_entries(Estimates, len(declaration.levels) - 1, 0, leaf, cell, count, geounits)
            yield _check_microdata(release, declared, blocks)
    yield Check("declared figures", f"{geounits:,} geounits", tuple(faults))


def _check_microdata(release: Path, declared: Declared, blocks: Estimates) -> Check:
    """Check that the microdata are those of the counts of the leaves."""
    file = microdata_table(declared.declaration).parquet
    stated, own = pq.read_table(path_in(release, file)), pa.concat_tables(microdata(declared, [blocks]))
    faults = () if stated.equals(own) else ("they are not those of the counts",)
    return Check(file, f"{len(stated):,} rows", faults)


def _other_counts(declared: Declared, leaf: IntArray, cell: IntArray, count: IntArray) -> Iterator[str]:
    """Yield where counts of the leaves are not those of a release that they equal."""
    product, form = declared.declaration.product, declared.declaration.form
    for at, each in enumerate(form.equal):
        group = query_group(product, each.partition)
        key, number = np.unique(leaf * group.width + group.coordinate[cell], return_inverse=True)
        own = key, np.bincount(number, count, len(key)).astype(np.int64)
        if declared.released is not None:
            released = declared.released.sums[-1]
            other = released.row * group.width + released.cell, released.count
        else:
            dense = declared.figures.equal[at].ravel()
            other = np.flatnonzero(dense), dense[dense > 0]
        # With counts numpy sorts them; without it hashes them, which takes ten times as long if most are distinct.
        keys, _ = np.unique(np.concatenate([own[0], other[0]]), return_counts=True)
        first, second = (np.bincount(np.searchsorted(keys, at), n, len(keys)) for at, n in (own, other))
        if wrong := len(np.unique(keys[first != second] // group.width)):
            yield f"{wrong:,} geounits have other counts by {each.partition} than {each.release}"


def _check_names(release: Path, declared: Declared, level: str) -> Check:
    """Check that the geounits of a level have the names in the table of leaves."""
    same = read_in(release, names_file(level)).decode("utf-8", "replace") == names_text(declared, level)
    return Check(f"names of {level}", f"{len(declared.names[level]):,} geounits", () if same else ("they differ",))
