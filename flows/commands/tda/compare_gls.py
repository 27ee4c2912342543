"""`das tda compare-gls`: our unbiased estimates and those of the Census Bureau."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.reports.terminal import Format, FormatOption, Json, report
from tasks.lifecycle.new_folder import check_empty
from tasks.pages.text_table import TextTable

if TYPE_CHECKING:
    from pandas import DataFrame

    from tasks.top_down.published.least_squares import Comparison

SHOWN = 20  # of compare-gls: queries that are unlike N(0, 1)
SIZES = {"level": "{level}", "table": "{table_name}", "areas": "{geounits:,}", "cells": "{cells:,}"}
SCORES = {"mean z": "{mean_z:.3f}", "mean z²": "{mean_z2:.3f}", "with z": "{with_z:,}"}
DIFFERENCES = {"mean difference": "{mean_difference:.3f}", "rms difference": "{rms_difference:.3f}"}
ERRORS = {
    "our s.e.": "{our_error:.3f}",
    "their s.e.": "{their_error:.3f}",
    "ratio": "{error_ratio:.3f}",
    "theirs above ours": "{theirs_larger:,}",
    "apart": "{apart:,}",
}


def compare_gls(
    margins: Annotated[
        Path,
        typer.Argument(metavar="MARGINS", help="A release by das tda estimate --count pl94, or its folder margins/."),
    ],
    product: Annotated[
        Path,
        typer.Argument(
            metavar="GLS_DIR", help="The Bureau's 2020 Redistricting Data File Least Squares Estimates, as downloaded."
        ),
    ],
    place: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Where cells.parquet and by_query.csv go.")
    ] = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """Compare our unbiased estimates with the Census Bureau's, cell by cell.

    For each cell of the tables P1 to P5, by state, county and tract. The Bureau also uses the measurements of the
    DHC. So with margins made by `--free` the difference over its standard deviation, z = (ours - theirs) /
    sqrt(s_ours² - s_theirs²), must be N(0, 1), and no standard error of theirs above ours. Margins made without it
    use what the Bureau leaves out: they are compared by differences and ratios alone.

    **Example:** `das tda compare-gls out/us census-2020-pl94-gls/`
    """
    from tasks.top_down.published.least_squares import compare_with_bureau, described

    if place is not None:
        check_empty(place)
    comparison = compare_with_bureau(margins, product, place)
    report(described(comparison), _tables(comparison), form, as_json=as_json)


def _tables(comparison: Comparison) -> Iterator[TextTable]:
    from tasks.top_down.published.least_squares import APART, CHANCE

    columns = SIZES | (SCORES if comparison.free else DIFFERENCES) | ERRORS
    title = f"Ours and the Bureau's {comparison.verdict}"
    notes = [f"apart: estimates that differ by more than {APART} standard errors of both together. s.e.: means."]
    if not comparison.free:
        notes.append("No z: these margins know state totals and blocks' zeros, which the Bureau's do not.")
    yield _filled(title, columns, comparison.by_table, [*notes, *comparison.notes])
    if len(comparison.unlike):
        shown = comparison.unlike.head(SHOWN)
        of = f"the first {SHOWN} of {len(comparison.unlike):,} queries" if len(comparison.unlike) > SHOWN else "queries"
        columns = {"level": "{level}", "query": "{query}", "areas": "{geounits:,}"} | SCORES | ERRORS
        notes = [f"A query that is N(0, 1) is among them with a chance of {CHANCE}, were its areas independent."]
        yield _filled(f"Not N(0, 1): {of}", columns, shown, notes)


def _filled(title: str, columns: dict[str, str], rows: DataFrame, notes: list[str]) -> TextTable:
    table = TextTable.filled(title, columns, rows.to_dict("records"), words=2)
    cells = [["" if cell == "nan" else cell for cell in row] for row in table.rows]
    return replace(table, rows=cells, notes=notes)
