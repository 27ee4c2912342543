"""Release: the histograms of a declaration's levels, noisy measurements, estimates of gls, manifest and report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.noise.margins import Z95
from spine.declaration.declaration import Declaration
from spine.geography import FloatArray
from spine.gls.columns import query_errors
from spine.gls.grid import Blue, grid, to_cells
from spine.noise import distinct_shares
from spine.top_down import Estimates
from spine.top_down.queries import QueryGroup, group_sums, query_group
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.staging import release_file, write_tables
from tasks.lifecycle.workers import Workers
from tasks.memory import return_memory
from tasks.releases.describe import write_descriptions
from tasks.releases.manifest import GUARANTEE, spend_of
from tasks.releases.pages import decimal
from tasks.releases.pages.text_table import TextTable
from tasks.releases.report import InShort
from tasks.releases.report import write_report as write_page
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.dhc_fields import microdata_of
from tasks.top_down.declared.dhc_microdata import write_microdata
from tasks.top_down.declared.explain import Explanation, explain
from tasks.top_down.declared.measurements import write_read
from tasks.top_down.declared.public_tables import Declared
from tasks.top_down.declared.source import DeclarationSource, names_of, stated_states
from tasks.top_down.declared.tables import (
    COUNT,
    ESTIMATE_MARGIN,
    MARGINS,
    description,
    is_full,
    names_file,
    query_title,
    released_levels,
)
from tasks.top_down.declared.wide import count_answers
from tasks.top_down.estimate.gls.margin_tables import PLACES
from tasks.top_down.estimate.gls.tree import blue_below
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.release.manifest import LATER, describe_solves, measured, source_manifest
from tasks.top_down.release.report import describe_section, parts_of_levels

LEAVES, ROWS = 1 << 12, 1 << 17  # whose geounits are read at once, unless one has more; rows that are written at once
TITLE = "Tables of a declaration by the TopDown Algorithm"  # `release` in manifests
STATEMENTS = {
    "guarantee": GUARANTEE,
    "declared": "Declared figures come from public files and are published unchanged: they are not protected.",
    "errors": "A count is whole, not negative, and adds up over geounits and levels; no formula gives its error. The "
    "noisy measurements have exact laws.",
}
UNRECONCILED = {
    "unreconciled": "Persons and households of the DHC are estimated apart, as in the production runs of 2020, and not "
    "reconciled: a block may have 31 persons in households in one release, and households whose sizes add up to 67 in "
    "the other, for example. Neither is an error of the files. Housing units and households are two runs, and both "
    "spend on the same households."
}
COVERAGE = (
    "by the normal law the count in the records is within it in 95 of 100 runs; in fewer where one answer outweighs "
    "the others: about 94 under geometric noise, and as few as 74 where the standard error is below about 1."
)
ROUNDED = {  # how the counts of a wide table were rounded, in words
    "program": "as in the production runs: what a level's rounding adds to or takes from a larger sum stays, so cells "
    "that few records are in have too many of them, the more the higher the level",
    "carried": "so that later cells make up for what a larger sum has lost",
    "stepwise": "in two steps, larger sums first, so that later cells make up for what these have lost",
}
OF_GLS = (
    "margins/ and tables/ have an unbiased estimate of every count that was asked, with its exact standard error. To "
    "publish a number with a margin, publish estimate ± estimate_margin, which is 1.96 standard errors: "
    f"{COVERAGE} The margin is not one of the released count, whose error has no formula: that is whole, not negative, "
    "and adds up. An estimate may be negative. It is the best linear one from all levels' answers and the declared "
    "totals"
)


def write_release(own: DeclarationSource, workers: Workers, staged: Path) -> None:
    """Write the histograms of the levels that are released, the estimates of gls, then manifest and report.

    A wide table also has the answers that estimation read.
    """
    if own.declared.is_wide and not is_truth(own):
        read = [each for each in own.branch_levels if not is_full(own.declared.declaration, each[1])]
        workers.map("release", own, write_read, [(branch, level, staged) for branch, level in read])
    workers.map("release", own, write_level, [(staged, level) for level in released_levels(own.declared.declaration)])
    if microdata_of(own.declared.declaration):
        workers.map("release", own, write_microdata, [(staged,)])
    if own.estimator == "gls" and not is_truth(own):
        workers.map("margins", own, write_margins, [(staged,)])
    workers.map("release", own, describe, [(staged,)])


def level_tables(declared: Declared, level: str, histograms: Estimates) -> Iterator[pa.Table]:
    """Yield a row for each cell that is not 0 of geounits of a level, ROWS at a time; a table at the least."""
    product, row = declared.declaration.product, histograms.row
    for begin in range(0, max(len(row), 1), ROWS):
        own = slice(begin, begin + ROWS)
        at = np.unravel_index(histograms.cell[own], product.shape)
        yield pa.table(
            names_of(declared, level)(histograms.first, histograms.last, row[own])
            | {
                axis.name: pa.array(axis.codes).take(pa.array(each))
                for axis, each in zip(product.axes, at, strict=True)
            }
            | {COUNT: histograms.count[own].astype(np.int64)}
        )


def write_level(own: DeclarationSource, staged: Path, level: str) -> None:
    """Write the histograms of a level, as text and as Parquet: a row for each geounit and cell that is not 0."""
    return_memory()  # of estimating, and of the level before
    spine = own.declared.hierarchy.spine
    pieces = spine.pieces(spine.levels.index(level), (len(spine.levels) - 1, LEAVES))
    parts = (load_estimates(own, own.branch, level, *each) for each in pieces)
    tables = (table for part in parts for table in level_tables(own.declared, level, part))
    write_tables(staged, tables, f"parquet/{level}.parquet", f"{level}.csv")


def write_margins(own: DeclarationSource, staged: Path) -> None:
    """Write the unbiased estimate of every sum that a level's query groups ask, if a record may be in it.

    They are made of noisy answers and declared figures alone, so they cost no budget, and follow from the information
    that was passed up for an estimate, from the top down.
    """
    plan = own.plan(own.branch)
    above: Blue | None = None
    for level in plan.spine.levels:
        parts: list[Blue] = []

        def tables(level: str = level, above: Blue | None = above, parts: list[Blue] = parts) -> Iterator[pa.Table]:
            for parents in [None] if above is None else starmap(above.only, plan.batches(above.level, 0, len(above))):
                found = blue_below(own, own.branch, parents)
                released = load_estimates(own, own.branch, level, found.first, found.first + len(found))
                parts += [] if plan.is_leaf(found.level) else [found]
                yield _margins_table(own.declared, level, found, released)

        write_tables(staged, tables(), f"{MARGINS}/{level}.parquet")
        if parts:
            x, variance = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "variance"))
            above = Blue(parts[0].level, 0, x, variance)


def _margins_table(declared: Declared, level: str, found: Blue, released: Estimates) -> pa.Table:
    """Return the rows of some geounits of a level."""
    plan, geounits, tables = declared.plan, np.arange(found.first, found.first + len(found)), []
    named = names_of(declared, level)
    if plan.closed_form:  # the second of two cells is estimated, and their sum declared
        x = found.x.reshape(-1)
        cells = np.stack([plan.bounds.number(found.level)[geounits] - x, x], axis=1)
    else:
        cells = to_cells(found.x, grid(plan))
    for query in plan.allocation.queries[level]:
        group = query_group(plan.product, query)
        part = np.flatnonzero(np.bincount(group.coordinate, plan.product.possible, group.width))
        counts = group_sums(group, len(found), released.row, released.cell, released.count)
        if plan.closed_form:
            errors = np.sqrt(found.variance.reshape(-1, 1)) * np.full(group.width, group.width > 1)
        else:
            errors = query_errors(grid(plan), query, found.variance)
        columns = {
            "query": pa.array(np.full(len(found) * len(part), query)).dictionary_encode(),
            "part": pa.array(np.tile(part, len(found))),
            "released": pa.array(counts[:, part].ravel()),
            "estimate": pa.array(np.round(_sums(group, cells)[:, part], PLACES).ravel() + 0.0),
            "standard_error": pa.array(np.round(errors[:, part], PLACES).ravel()),
            ESTIMATE_MARGIN: pa.array(np.round(Z95 * errors[:, part], PLACES).ravel()),
        }
        tables.append(pa.table(named(0, 0, np.repeat(geounits, len(part))) | columns))
    return pa.concat_tables(tables).unify_dictionaries()


def _sums(group: QueryGroup, cells: FloatArray) -> FloatArray:
    sums = np.zeros((group.width, len(cells)))
    np.add.at(sums, group.coordinate, cells.T)
    return sums.T


def describe(own: DeclarationSource, staged: Path) -> None:
    """Write report.html, the description of the tables, and the manifest, over all files of the staging folder."""
    return_memory()  # of writing levels and microdata
    declared, origin, truth = own.declared, own.origin, is_truth(own)
    spine, drawn = declared.hierarchy.spine, not truth and origin is None
    solved, failed = describe_solves(own, own.name, spine.levels)
    facts, published = explain(declared), own.design.public.published()
    stated = {
        **({} if origin is None else {"measured_by": origin.run}),
        "spent": declared.spend.as_json() if drawn else None,
        **({"states": stated_states(declared)} if drawn else {}),
        **declaration_statements(
            declared.declaration,
            json.loads(published.text),
            None if truth else own.estimator,
            {} if truth else distinct_shares(spine),
            drawn=drawn,
            later=drawn and not declared.hindrance,
        ),
        **table_statements(declared, published.digests, facts),
        **({"answers": count_answers(own)} if declared.is_wide and not truth else {}),
        "solved": solved,
        "failed": [row for _, row in failed],
        "configuration_digest": own.design.digest(),
    }
    for level in declared.names:
        with release_file(staged, names_file(level)) as draft:
            draft.write_text(names_text(declared, level), "utf-8")
    manifest = source_manifest(own, TITLE, stated)
    write_report(staged, manifest, declared.declaration, facts)
    write_descriptions(staged, description(manifest), manifest)


def names_text(declared: Declared, level: str) -> str:
    """Return the file with the names of the geounits of a level: their codes, NAME."""
    names = declared.names[level]
    codes = names_of(declared, level)(0, len(names), np.arange(len(names)))
    rows = zip(*(column.to_pylist() for column in codes.values()), names.texts().tolist(), strict=True)
    return "".join("|".join(row) + "\n" for row in ((*codes, "NAME"), *rows))


def declaration_statements(
    declaration: Declaration,
    text: Mapping[str, Any],
    estimator: Estimator | None,
    shares: Mapping[str, list[Fraction]],
    *,
    drawn: bool,
    later: bool,
) -> dict[str, Any]:
    """Return the statements of a release that follow from its declaration, with its JSON, and the shares of geounits.

    estimator: None for exact counts, which have no shares either. drawn: whether the run drew noise of its own. later:
    whether least squares over the tree is possible with the measurements in the release.
    """
    form = declaration.form
    declared = (form.zeros, "zeros within a part"), (any(each.most for each in form.counts), "limits")
    unused = [words for there, words in (*declared, (form.equal, "equal")) if there]
    left_out = f", without {' and '.join(unused)}" if unused else ""
    of_dhc = UNRECONCILED if microdata_of(declaration) else {}
    of_estimator = {"estimates": f"{OF_GLS}{left_out}."} if estimator == "gls" else LATER if later else {}
    return {
        "title": f"{declaration.form.name}: {declaration.records} by the TopDown Algorithm",
        "declaration": text,
        "estimator": estimator,
        "cells": declaration.product.cells,
        "measurements": declaration.form.measurements if drawn and declaration.form.is_wide else drawn,
        **measured(declaration.allocation, declaration.allocation.levels, shares),
        "statements": {} if estimator is None else STATEMENTS | of_dhc | of_estimator,
    }


def table_statements(declared: Declared, digests: Mapping[str, Any], facts: Explanation) -> dict[str, Any]:
    """Return the statements of a release that follow from the public tables of its declaration; digests: theirs."""
    spine = declared.hierarchy.spine
    return {
        "declared_unchanged": facts.unchanged,
        "constraints": f"class {facts.kind}, {facts.why}",
        "geounits": {level: len(starts) for level, starts in zip(spine.levels, spine.starts, strict=True)},
        "public_files": digests,
    }


def write_report(staged: Path, manifest: Mapping[str, Any], declaration: Declaration, facts: Explanation) -> None:
    """Write report.html in the declaration's words: the page of the redistricting data."""
    words, spend = partial(query_title, declaration), spend_of(manifest)
    write_page(
        "tasks.top_down.release",
        staged,
        manifest,
        spend,
        manifest["title"],
        _short(staged, manifest, declaration, words, facts),
        template="declared_report.html",
        parts=parts_of_levels([manifest]) if spend else [],
        sections=[describe_section(facts.records.capitalize(), facts.records, manifest, str, words)],
        divided=False,
    )


def _short(
    staged: Path,
    manifest: Mapping[str, Any],
    declaration: Declaration,
    words: Callable[[str], str],
    facts: Explanation,
) -> InShort:
    """Return what was published and how sure it is, a column for each level.

    By query: the largest noise of one answer, or the largest standard error of an estimate where there are estimates.
    """
    places = ", ".join(f"{level.level} ({level.geounits:,})" for level in facts.levels)
    published = [
        f"{facts.records.capitalize()} by {facts.possible:,} cells, for the geounits of each level: {places}.",
        "Counts are whole and add up.",
    ]
    if "NOT_PRIVATE" in manifest:
        return InShort(published, ["The counts are exact."])
    if answers := manifest.get("answers"):
        defined, read = (sum(level[name] for level in answers.values()) for name in ("defined", "read"))
        published.append(
            f"Of {defined:,} noisy answers the estimation read {read:,}. Published are: {manifest['measurements']}."
        )
    if manifest["estimator"] == "gls":
        of_counts = (
            "margins/ has an unbiased estimate of every count that was asked, with its exact standard error. Published "
            "counts are made of these estimates, whole and not negative, so their errors are others. The table shows "
            "the largest standard error; each estimate has its own in tables/, and a margin of 1.96 standard errors: "
            f"{COVERAGE}"
        )
        return InShort(published, [of_counts], _standard_errors(staged, words, facts))
    sure = [
        "The error of a published count has no formula.",
        *([rounding_words(declaration, words)] if declaration.form.is_wide else []),
        *([said] if (said := manifest["statements"].get("standard_errors")) else []),
        "The table shows the noise of each single answer: in 95 of 100 runs it is no larger. Published counts combine "
        "several answers. das synth --declaration and das tda accuracy show errors on made-up records.",
    ]
    rows = [[words(query), *row] for query, *row in facts.margins]
    columns = ["one answer, ±", *(level.level for level in facts.levels)]
    return InShort(published, sure, TextTable("In short", columns, rows))


def rounding_words(declaration: Declaration, words: Callable[[str], str]) -> str:
    """Return in a sentence how the counts of a wide table were rounded, and which sums it keeps close besides."""
    first = declaration.form.passes[0]
    anchors = [*first.anchors, *(name for then in first.then for name in then.anchors)]
    said = f"Counts were rounded {ROUNDED[first.rounding]}."
    if anchors:
        said += f" Kept close to the sums of all answers of the top's possible cells: {', '.join(map(words, anchors))}."
    return said


def _standard_errors(staged: Path, words: Callable[[str], str], facts: Explanation) -> TextTable:
    """Return the largest standard error of the estimates of each query and level."""
    levels = [each.level for each in facts.levels]
    found: dict[str, dict[str, str]] = {}
    for level in levels:
        errors = pq.read_table(staged / f"{MARGINS}/{level}.parquet", columns=["query", "standard_error"])
        largest = errors.group_by("query").aggregate([("standard_error", "max")]).to_pydict()
        for query, error in zip(largest["query"], largest["standard_error_max"], strict=True):
            found.setdefault(query, {})[level] = decimal(error)
    rows = [[words(query), *(own.get(level, "–") for level in levels)] for query, own in found.items()]
    return TextTable("In short", ["standard error, at most", *levels], rows)
