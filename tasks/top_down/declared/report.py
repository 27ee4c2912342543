"""report.html of a declaration's release, by its own words: the page of the redistricting data with other counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spine.declaration.declaration import Declaration
from spine.geography import IntArray
from spine.top_down.histogram import Histograms
from spine.top_down.queries import DETAILED, TOTAL, QueryGroup, query_group
from tasks.lifecycle.manifest import spend_of
from tasks.pages.release_report import InShort
from tasks.pages.release_report import write_report as write_page
from tasks.pages.text_table import TextTable
from tasks.top_down.declared.explain import explain
from tasks.top_down.declared.measure import OfDeclaration
from tasks.top_down.declared.tabulate import ALL
from tasks.top_down.estimate.estimates import load_estimates
from tasks.top_down.release.report import describe_section, parts_of_levels

MARKS = ("circle", "square", "diamond", "ring")
GEOUNITS, COUNTS = 24, 12  # rows and columns of the released counts


def write_report(run: OfDeclaration, staged: Path, manifest: dict[str, Any]) -> None:
    """Write report.html from the manifest's content and the estimates."""
    declaration, spend = run.declared.declaration, spend_of(manifest)
    sizes = {level.name: load_estimates(run, run.name, ALL, level.name).totals() for level in declaration.levels}
    queries = list(dict.fromkeys(query for level in declaration.levels for query in declaration.queries(level.name)))

    def query_words(query: str) -> str:
        return query_title(declaration, query)

    section = describe_section(
        declaration.records.capitalize(),
        declaration.records,
        manifest,
        sizes,
        str,
        query_words,
        dict(zip(queries, MARKS, strict=False)),
    )
    write_page(
        "tasks.top_down.release",
        staged,
        manifest,
        spend,
        manifest["title"],
        _short(run, manifest),
        template="declared_report.html",
        parts=parts_of_levels([manifest]) if spend else [],
        sections=[section],
        counts=_counts(run),
        divided=False,
    )


def _short(run: OfDeclaration, manifest: dict[str, Any]) -> InShort:
    """Return what was published, and by level the largest noise of what was asked there."""
    declaration, facts = run.declared.declaration, explain(run.declared)
    places = ", ".join(f"{level.geounits:,} {level.level}" for level in facts.levels)
    published = [
        f"{facts.records.capitalize()} by {facts.possible:,} cells, for {places}. Counts are whole and add up."
    ]
    if "NOT_PRIVATE" in manifest:
        return InShort(published, ["The counts are exact."])
    sure = [
        "No formula gives the error of a count. The table has the noise of one answer, in 19 of 20 cases at most, by "
        "what each level was asked itself; a published count draws on several answers."
    ]
    rows = [
        [f"{level.level}: {query_title(declaration, query)}", f"{level.geounits:,}", f"{margin:,}"]
        for level in facts.levels
        for query, margin in level.margins.items()
    ]
    return InShort(published, sure, TextTable("In short", ["level, question", "units", "one answer, ±"], rows))


def query_title(declaration: Declaration, query: str) -> str:
    """Return a query group in the words of its axes: `sex × age in 3 groups`."""
    words = {axis.name: axis.words for axis in declaration.product.axes} | {TOTAL: "total", DETAILED: "every cell"}
    return " × ".join(words.get(name.strip(), name.strip()) for name in query.split("*"))


def group_sums(histograms: Histograms, group: QueryGroup) -> IntArray:
    """Return the (geounits, coordinates) sums of a query group."""
    sums = np.zeros((len(histograms), group.width), np.int64)
    np.add.at(sums, (histograms.row, group.coordinate[histograms.cell]), histograms.count)
    return sums


def _counts(run: OfDeclaration) -> dict[str, Any]:
    """Return totals and the cells of small axes of the first geounits of the first level that has several."""
    declared = run.declared
    product, spine = declared.declaration.product, declared.hierarchy.spine
    level = next((at for at, starts in enumerate(spine.starts) if len(starts) > 1), len(spine.starts) - 1)
    number = len(spine.starts[level])
    estimates = load_estimates(run, run.name, ALL, spine.levels[level], 0, min(number, GEOUNITS))
    names, columns = ["total"], [estimates.totals()[:, None]]
    for axis in sorted(product.axes, key=len):
        if len(axis) > 1 and len(names) + len(axis) <= COUNTS:
            names += [
                label if label != code else f"{axis.words} {label}"
                for code, label in zip(axis.codes, axis.labels, strict=True)
            ]
            columns.append(group_sums(estimates, query_group(product, axis.name)))
    rows = zip(declared.hierarchy.names(level), np.hstack(columns).tolist(), strict=False)
    return {"level": spine.levels[level], "names": names, "rows": [*rows], "more": number if number > GEOUNITS else 0}
