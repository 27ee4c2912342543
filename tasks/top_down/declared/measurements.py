"""The description of a declaration's measurements in its release, and their estimation by others.

measurements/declared.json     the declaration, its declared totals and the digests of its public files
measurements/leaves.parquet    the columns of its table of leaves
measurements/equal.parquet     the counts of releases that its estimates have, where it is equal to some
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.journal import MarkName
from spine.declaration.released import Counts
from spine.declaration.texts import Texts
from spine.geography import Integers
from spine.top_down.bounds import LARGEST_COUNT
from tasks.errors import Refused
from tasks.lifecycle.files import save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.staging import release_file, write_tables
from tasks.lifecycle.typed_json import decode
from tasks.lifecycle.workers import Workers
from tasks.memory import return_memory
from tasks.records.declarations import find_declaration, read_raw
from tasks.releases.manifest import mark_facts, mark_in
from tasks.releases.received import path_in, read_json
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import (
    DeclaredDesign,
    PublicTables,
    assemble,
    keep_design,
    without_folders,
)
from tasks.top_down.declared.source import ALL, DeclarationSource, DeclaredRun, check_estimator
from tasks.top_down.declared.tables import (
    EQUAL_COLUMNS,
    EQUAL_FILE,
    LEAVES_FILE,
    geounit_columns,
    is_full,
)
from tasks.top_down.declared.wide import ReadAnswers, load_answers
from tasks.top_down.published.release_source import RELEASE, ReleaseSource
from tasks.top_down.published.source import ORIGIN, read_level
from tasks.top_down.release.design_file import DECLARED_FILE, MEASUREMENTS, UNREADABLE
from tasks.top_down.release.measurements import write_level
from tasks.top_down.run_plan import law, variance
from tasks.top_down.source import Branch, Origin, Validated

KEYS: dict[str, Any] = {  # keys of declared.json, and what they hold
    "run": str,
    "text": str,
    "totals": tuple[dict[str, int], ...],
    "digests": dict[str, str],
    "estimator": Estimator,
}
ROWS = 1 << 18  # rows of a table of answers that were read
FREE = ("passes", "histograms", "publish")  # keys of a declaration that say nothing of its measurements


@dataclass(frozen=True)
class DeclaredEstimate(DeclarationSource, ReleaseSource):
    """The measurements of a declaration's release."""


class Measurements(NamedTuple):
    """The measurements of a declaration's release. folder: the release, or where its `measurements/` is."""

    folder: Path
    run: str
    mark: MarkName | None
    public: PublicTables
    estimator: Estimator

    def read(self, path: Path, workers: Workers) -> DeclaredEstimate:
        """Read the answers into a directory, and validate every one. Raises Refused."""
        declared = assemble(self.public)
        if declared.is_wide:
            raise Refused("a release with the answers that were read is not estimated again: das check checks it")
        check_estimator(declared, self.estimator)
        source = DeclaredEstimate(path)
        keep_design(source, DeclaredDesign(self.public, self.estimator))
        save_object(source / RELEASE, path_in(self.folder, DECLARED_FILE).parent)
        save_object(source / VALIDATED, Validated("", (), self.mark, (ALL,), False, {}))
        save_object(source / ORIGIN, Origin(self.run))
        workers.map("read answers", source, read_level, source.branch_levels)
        return source


def write_declared_layout(run: DeclaredRun, workers: Workers, staged: Path) -> None:
    """Write the folder `measurements/` of a run into a staging folder: the answers, and what describes them."""
    full = [each for each in run.branch_levels if is_full(run.declared.declaration, each[1])]
    workers.map("measure", run, write_level, [(branch, level, staged) for branch, level in full])
    public = run.design.public.published()
    content = {"run": run.id, **mark_facts(run.validated.mark)}
    content |= {name: getattr(public, name) for name in ("text", "totals", "digests")}
    content |= {} if run.estimator == "topdown" else {"estimator": run.estimator}
    with release_file(staged, DECLARED_FILE) as draft:
        draft.write_text(json.dumps(content) + "\n", "utf-8")
    write_tables(staged, _leaf_tables(public.leaves), LEAVES_FILE)
    if public.equal:
        write_tables(staged, _equal_tables(public.equal), EQUAL_FILE)


def _leaf_tables(leaves: Mapping[str, Texts]) -> Iterator[pa.Table]:
    """Yield the columns of leaves, some rows at a time."""
    for first in range(0, len(next(iter(leaves.values()))), ROWS):
        parts = {name: own.at(slice(first, first + ROWS)) for name, own in leaves.items()}
        yield pa.table({name: pa.array(own.distinct).take(pa.array(own.number)) for name, own in parts.items()})


def _equal_tables(equal: Sequence[Counts]) -> Iterator[pa.Table]:
    """Yield the counts of releases, some rows at a time; a table at the least."""
    for at, counts in enumerate(equal):
        for first in range(0, max(len(counts.row), 1), ROWS):
            row, part, number = (each[first : first + ROWS].astype(np.int64) for each in counts)
            columns = np.full(len(row), at), row, part, number
            yield pa.table(dict(zip(EQUAL_COLUMNS, columns, strict=True)))


def write_read(run: DeclaredRun, branch: Branch, level: str, staged: Path) -> None:
    """Write the noisy answers of a level of a wide table that estimation read: a row each."""
    return_memory()  # of estimating, and of the level before
    write_tables(staged, _tables_read(run, branch.product, level), f"{MEASUREMENTS}/{level}.parquet")


def _tables_read(run: DeclaredRun, product: str, level: str) -> Iterator[pa.Table]:
    """Yield the answers that were read with geounit, query, coordinate and law, by geounit; a table at the least."""
    declared, spine = run.declared, run.declared.hierarchy.spine
    number, allocation = spine.levels.index(level), declared.declaration.allocation
    queries = declared.declaration.queries(level)
    codes = declared.hierarchy.codes(number)
    named = [(column.name, codes[column.name]) for column in geounit_columns(declared.declaration, level)]
    names = {name: _in_order_of_rows(own) for name, own in named}
    distinct, law_of = np.unique(spine.shares[number], return_inverse=True)
    shares = [Fraction(share, spine.denominator) for share in distinct.tolist()]
    alphas = allocation.queries[level].values()
    laws = [law(allocation, share, alpha) if share else None for alpha in alphas for share in shares]
    texts = {
        "share": [str(share) for share in shares] * len(queries),
        "variance_numerator": [str(each.parameter.numerator) if each else "" for each in laws],
        "variance_denominator": [str(each.parameter.denominator) if each else "" for each in laws],
    }
    words = {name: pa.array(values).dictionary_encode() for name, values in texts.items()}
    sigma = np.array([variance(each) if each else np.nan for each in laws])

    def table(own: ReadAnswers) -> pa.Table:
        at = own.query.astype(np.int32) * len(shares) + law_of[own.geounit].astype(np.int32)
        asked = {
            "query": pa.DictionaryArray.from_arrays(pa.array(own.query.astype(np.int32)), pa.array(queries)),
            "coordinate": own.coordinate.astype(np.int32),
            "value": own.answer.astype(np.int64),
        }
        of_law = {name: column.take(pa.array(at)) for name, column in words.items()}
        geounit = {
            name: pa.DictionaryArray.from_arrays(pa.array(index[own.geounit].astype(np.int32)), texts)
            for name, (texts, index) in names.items()
        }
        return pa.table(geounit | asked | of_law | {"variance": sigma[at]})

    none = np.zeros(0, np.int64)
    yield table(ReadAnswers(none, none, none, none))
    for own in load_answers(run, product, level):
        order = np.lexsort((own.coordinate, own.query, own.geounit))
        yield from (
            table(ReadAnswers(*(each[order[at : at + ROWS]] for each in own))) for at in range(0, len(order), ROWS)
        )


def _in_order_of_rows(column: Texts) -> tuple[pa.Array, Integers]:
    """Return the texts that occur in a column, the first ones first, and the number of each row's."""
    occurring, first = np.unique(column.number, return_index=True)
    rank = np.zeros(len(column.distinct), column.number.dtype)
    order = occurring[np.argsort(first)]
    rank[order] = np.arange(len(order))
    return pa.array(column.distinct[order]), rank[column.number]


def read_measurements(folder: Path, declaration: str | None = None, estimator: Estimator | None = None) -> Measurements:
    """Read what describes the measurements in a folder; declaration: one with other passes, or other histograms.

    estimator: by default that of the release.

    Raises Refused if it is not a release's, or the other declaration has other measurements.
    """
    try:
        content = {"estimator": "topdown", **read_json(folder, DECLARED_FILE)}
        leaves = pq.read_table(path_in(folder, LEAVES_FILE))
        columns = {name: Texts.of([*map(str, leaves[name].to_pylist())]) for name in leaves.column_names}
    except UNREADABLE as error:
        raise Refused(f"{folder / MEASUREMENTS}: no measurements of a declaration ({type(error).__name__})") from None

    def stated(key: str) -> Any:
        return _field(key, lambda: decode(KEYS[key], content[key], []))

    text, totals, run = stated("text"), stated("totals"), stated("run")
    raw = _field("text", lambda: dict(json.loads(text)))
    if any(not 0 <= value <= LARGEST_COUNT for each in totals for value in each.values()):
        raise Refused(f"{DECLARED_FILE}: totals has a total that nothing has")
    if not run:
        raise Refused(f"{DECLARED_FILE}: run is empty")
    equal = _field("equal", lambda: _read_equal(folder, len(raw.get("equal", ()))))
    public = PublicTables(text, columns, totals, stated("digests"), equal)
    mark, by = _field("synthetic", lambda: mark_in(content)), estimator or stated("estimator")
    found = Measurements(folder.resolve(), run, mark, public, by)
    return found if declaration is None else found._replace(public=_with_passes(public, raw, declaration))


def _field(key: str, read: Callable[[], Any]) -> Any:
    """Return what a key of a received file holds, as `read` reads it. Raises Refused, and names the key."""
    try:
        return read()
    except UNREADABLE as error:
        raise Refused(
            f"{DECLARED_FILE}: {key} is missing, or not as a release has it ({type(error).__name__})"
        ) from None


def _read_equal(folder: Path, number: int) -> tuple[Counts, ...]:
    """Return the counts of releases, of each equality. Raises one of UNREADABLE."""
    if not number:
        return ()
    table = pq.read_table(path_in(folder, EQUAL_FILE), columns=[*EQUAL_COLUMNS])
    at, *rows = (table[name].cast(pa.int64()).to_numpy() for name in EQUAL_COLUMNS)
    if any(each.min(initial=0) < 0 or each.max(initial=0) > LARGEST_COUNT for each in (at, *rows)):
        raise ValueError("a negative number, or one that nothing has")
    if at.max(initial=0) >= number:
        raise ValueError("counts of another equality")
    return tuple(Counts.of(*(each[at == own] for each in rows)) for own in range(number))


def _with_passes(public: PublicTables, raw: dict[str, Any], declaration: str) -> PublicTables:
    """Return public tables with the passes and the histograms of another declaration."""
    try:
        other = without_folders(read_raw(find_declaration(declaration)))
    except UNREADABLE as error:
        raise Refused(f"{declaration} is not a declaration ({type(error).__name__})") from None
    if changed := [key for key in {**raw, **other} if key not in FREE and raw.get(key) != other.get(key)]:
        raise Refused(f"{declaration}: {changed[0]} is not that of the measurements; {' and '.join(FREE)} may differ")
    text = json.dumps(
        {key: each[key] for key in {**raw, **other} for each in (other if key in FREE else raw,) if key in each}
    )
    return replace(public, text=text)
