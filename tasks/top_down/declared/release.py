"""Release: the histograms of a declaration's levels, the noisy measurements, and the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from spine.declaration.classes import classify
from spine.geography import IntArray
from spine.noise import distinct_shares
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.datapackage import write_descriptions
from tasks.lifecycle.files import load_object, remove
from tasks.lifecycle.manifest import GUARANTEE, made_by, marked
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.staging import PIPES, drafts, release_file, write_table
from tasks.lifecycle.workers import Workers
from tasks.top_down.declared.description import COUNT, MEASUREMENTS, description, geounit_columns, released_levels
from tasks.top_down.declared.explain import declared_unchanged, explain
from tasks.top_down.declared.measure import DeclaredRun, OfDeclaration
from tasks.top_down.declared.measurements import write_public
from tasks.top_down.declared.public_tables import PUBLIC, Declared, PublicTables
from tasks.top_down.declared.report import write_report
from tasks.top_down.declared.spend import planned_spend
from tasks.top_down.declared.tabulate import ALL, TABULATED, Tabulated
from tasks.top_down.estimate.estimates import load_estimates, load_solves
from tasks.top_down.release.manifest import describe_failed, describe_noise, describe_solves
from tasks.top_down.release.measurements import tables_of_answers

if TYPE_CHECKING:
    from spine.top_down import Solve

ROWS = 1 << 12  # geounits that are written at once
STATEMENTS = {
    "guarantee": GUARANTEE,
    "declared": "Declared figures come from public files and are published unchanged: they are not protected.",
    "errors": "A count is whole, not negative, and adds up over geounits and levels; no formula gives its error. The "
    "noisy measurements have exact laws.",
}


def stage_release(run: RunDirectory, workers: Workers, staged: Path) -> None:
    """Write the release into its staging folder."""
    for folder in (staged, drafts(staged)):
        remove(folder)  # of a try that was killed; nothing sealed
        if is_truth(run):  # exact counts: open to their owner only, as the release will be
            folder.mkdir(mode=0o700, parents=True)
    own = DeclaredRun(run.path)
    write_levels(own, workers, staged)
    if not is_truth(run):
        levels = [level.name for level in own.declared.declaration.levels]
        workers.map("release", own, write_measurements, [(staged, level) for level in reversed(levels)])
        mark = load_object(run / TABULATED, Tabulated).mark
        write_public(staged, run.id, mark, load_object(run / PUBLIC, PublicTables))
    workers.map("release", own, describe_release, [(staged,)])


def write_levels(own: OfDeclaration, workers: Workers, staged: Path) -> None:
    """Write the histograms of the levels that are released."""
    workers.map("release", own, write_level, [(staged, level) for level in released_levels(own.declared.declaration)])


def _geounits(declared: Declared, level: str, rows: IntArray) -> dict[str, Any]:
    """Return the columns that name geounits, a row each."""
    codes = declared.hierarchy.codes(declared.hierarchy.spine.levels.index(level))
    return {
        column.name: pa.array(codes[column.name]).take(pa.array(rows))
        for column in geounit_columns(declared.declaration, level)
    }


def _dictionary(number: IntArray, words: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(number.astype(np.int32)), pa.array(words, pa.string())).cast(
        "string"
    )


def write_level(own: OfDeclaration, staged: Path, level: str) -> None:
    """Write the histograms of a level, as text and as Parquet: a row for each geounit and cell that is not 0."""
    declared, product = own.declared, own.declared.declaration.product
    geounits = len(declared.hierarchy.spine.starts[declared.hierarchy.spine.levels.index(level)])

    def tables() -> Iterator[pa.Table]:
        for first in range(0, geounits, ROWS):
            part = load_estimates(own, own.name, ALL, level, first, min(first + ROWS, geounits))
            at = np.unravel_index(part.cell, product.shape)
            yield pa.table(
                _geounits(declared, level, part.row + first)
                | {axis.name: _dictionary(own_at, axis.codes) for axis, own_at in zip(product.axes, at, strict=True)}
                | {COUNT: part.count.astype(np.int64)}
            )

    parts = tables()
    table = next(parts)
    with (
        release_file(staged, f"{level}.csv") as as_text,
        release_file(staged, f"parquet/{level}.parquet") as columns,
        pa.csv.CSVWriter(as_text, table.schema, write_options=PIPES) as lines,
        pq.ParquetWriter(columns, table.schema, compression="zstd") as writer,
    ):
        while table is not None:
            lines.write_table(table)
            writer.write_table(table)
            table = next(parts, None)


def write_measurements(own: DeclaredRun, staged: Path, level: str) -> None:
    """Write the noisy answers of a level; they are drawn again here, the same numbers as in estimation."""
    measuring = own.answers(own.name, ALL)

    def named(first: int, _last: int, rows: IntArray) -> dict[str, Any]:
        return _geounits(own.declared, level, rows + first)

    number = measuring.plan.spine.levels.index(level)
    parts = [*tables_of_answers(measuring, number, named, np.int64)]
    write_table(staged, f"{MEASUREMENTS}/{level}.parquet", pa.concat_tables(parts).unify_dictionaries())


def describe_release(own: DeclaredRun, staged: Path) -> None:
    """Write report.html, the description of the tables, and the manifest of a run."""
    truth = is_truth(own)
    describe(own, staged, marked(load_object(own / TABULATED, Tabulated).mark, exact=truth), truth=truth)


def describe(own: OfDeclaration, staged: Path, mark: Mapping[str, str], *, truth: bool = False) -> None:
    """Write report.html, the description of the tables, and the manifest, over all files of the staging folder."""
    declared, public, origin = own.declared, load_object(own / PUBLIC, PublicTables), own.origin
    declaration, spine = declared.declaration, declared.hierarchy.spine
    solves = [] if truth else load_solves(own, own.name, ALL)
    kind = classify(declaration)
    published = public.published()
    manifest: dict[str, Any] = {
        "release": "Tables of a declaration by the TopDown Algorithm",
        "title": f"{declaration.form.name}: {declaration.records} by the TopDown Algorithm",
        "run": own.id,
        **mark,
        **({} if origin is None else {"ESTIMATE": origin.statement, "measured_by": origin.run}),
        "spent": None if truth or origin else planned_spend(declaration).as_json(),
        "declaration": json.loads(published.text),
        "declared_unchanged": declared_unchanged(declaration),
        "constraints": f"class {kind.kind}, {kind.why}",
        "geounits": {level: len(starts) for level, starts in zip(spine.levels, spine.starts, strict=True)},
        "cells": declaration.product.cells,
        "public_files": published.digests,
        "measurements": not truth and origin is None,
        "budget": str(declaration.allocation.budget),
        "shares": {level: str(share) for level, share in declaration.allocation.levels.items()},
        "noise": [] if truth else [*describe_noise(declaration.allocation, distinct_shares(spine))],
        "solved": describe_solves(spine.levels, ((spine.levels[solve.level], solve) for solve in solves)),
        "failed": [
            describe_failed(spine.levels[solve.level], _parent(declared, solve), solve)
            for solve in solves
            if solve.failed
        ],
        "seconds": {
            "foreseen": [round(each, 1) for each in explain(declared).seconds],
            "used": round(sum(solve.least_squares_seconds + solve.rounding_seconds for solve in solves), 1),
        },
        "configuration_digest": public.digest(),
        "statements": {} if truth else STATEMENTS,
        **made_by(own),
    }
    write_report(own, staged, manifest)
    write_descriptions(staged, description(manifest), manifest)


def _parent(declared: Declared, solve: Solve) -> str:
    return declared.hierarchy.names(solve.level - 1)[solve.parent] if solve.level else ""
