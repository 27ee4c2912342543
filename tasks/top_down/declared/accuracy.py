"""The errors of a declaration's counts on marked data, by level, of its query groups and its published tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import Closeness, ErrorSums
from privacy.tables.histogram import mask
from spine.declaration.declaration import Declaration
from spine.geography import BoolArray
from spine.top_down.queries import QueryGroup, group_sums, query_group
from tasks.lifecycle.workers import Workers
from tasks.releases.pages import render
from tasks.releases.pages.text_table import TextTable
from tasks.top_down.accuracy.errors import averaged, repetitions, sums_by_size
from tasks.top_down.accuracy.report import CLOSE, signed, with_percentages
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.source import DeclaredRun, check_estimator
from tasks.top_down.declared.tables import query_title
from tasks.top_down.declared.wide import estimate
from tasks.top_down.estimate.topdown import load_estimates

KEYS = ["product", "level", "quantity", "size"]
COUNTS_AT_ONCE = 1 << 23
WIDEST = 1 << 10  # sums of a query group of a wide table whose errors are reported


def measure_errors(
    run: DeclaredRun, workers: Workers, seeds: Iterable[int], estimators: Sequence[Estimator] = ("topdown",)
) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Measure once a seed, and estimate by each estimator, on tabulated, marked data.

    Returns errors by level and quantity, a query group or a published table, and the words of each quantity. The errors
    are those of `averaged`, by estimator where there are several. Raises Refused as `check_estimator` does.
    """
    declaration = run.declared.declaration
    levels, parts = [(level.name,) for level in declaration.levels], []
    for estimator in estimators:
        check_estimator(run.declared, estimator)
    for seed, estimator in repetitions(run, workers, seeds, estimators, estimate):
        found = workers.map("compare", run, compare_level, levels)
        parts += [table.assign(seed=seed, estimator=estimator) for table in found]
    errors = averaged(pd.concat(parts, ignore_index=True).assign(spine=run.name))
    one = ["estimator", "ratio", "ratio_sd"] if len(estimators) == 1 else []
    return errors.drop(columns=["product", "spine", *one]), _words(declaration)


def _words(declaration: Declaration) -> dict[str, str]:
    tables = {table.name: table.title for table in declaration.published}
    queries = {
        query: query_title(declaration, query)
        for level in declaration.levels
        for query in _queries(declaration, level.name)
    }
    return tables | queries


def _queries(declaration: Declaration, level: str) -> list[str]:
    """Return the query groups of a level; of a wide table the partitions of counts instead of the widest."""
    queries, product = declaration.queries(level), declaration.product
    if not declaration.form.is_wide:
        return queries
    counted = [count.partition for count in declaration.form.counts]
    return [*dict.fromkeys([*counted, *(query for query in queries if product.width(query) <= WIDEST)])]


def _groups(declaration: Declaration, level: str) -> Iterator[tuple[str, QueryGroup, BoolArray]]:
    """Yield by quantity of a level the sums of cells that it has, and which of them may have records.

    Cells outside a table's universe are a sum of their own, the last.
    """
    product, possible = declaration.product, declaration.product.possible
    for table in declaration.published:
        inside = mask(product.axes, table.inside)
        coordinate, width = table.histogram.partition(table.by)
        group = QueryGroup(table.name, np.where(inside, coordinate, width).astype(np.int32), width + 1)
        yield table.name, group, np.bincount(group.coordinate, possible & inside, width + 1) > 0
    for query in _queries(declaration, level):
        group = query_group(product, query)
        yield query, group, np.bincount(group.coordinate, possible, group.width) > 0


def compare_level(run: DeclaredRun, level: str) -> pd.DataFrame:
    """Return sums of errors of a level's released counts by quantity and class of the true size. Of marked data.

    Cells that no record can be in are left out.
    """
    declaration, spine, rows = run.declared.declaration, run.declared.hierarchy.spine, []
    number = len(spine.starts[spine.levels.index(level)])
    for quantity, group, possible in _groups(declaration, level):
        step = max(COUNTS_AT_ONCE // group.width, 1)
        for first in range(0, number, step):
            last = min(first + step, number)
            exact = run.exact(run.branch, level, first, last)
            estimates = load_estimates(run, run.branch, level, first, last)
            true, released = (
                group_sums(group, last - first, each.row, each.cell, each.count)[:, possible].ravel()
                for each in (exact, estimates)
            )
            rows += [(run.name, level, quantity, *row) for row in sums_by_size(true, released - true)]
    table = pd.DataFrame(rows, columns=[*KEYS, *ErrorSums._fields, *Closeness._fields])
    return table.groupby(KEYS, as_index=False, sort=False).sum()


def write_report(
    out: Path, errors: pd.DataFrame, words: Mapping[str, str], about: Mapping[str, str]
) -> list[TextTable]:
    """Write OUT/error.csv and error.html; return the tables. words: of each quantity."""
    errors.to_csv(out / "error.csv", index=False)
    if "estimator" in errors:
        errors = errors.assign(level=errors["level"] + ", " + errors["estimator"])
    of_all = errors[errors["size"] == "all"]
    figures = of_all["mae"].map("{:.2f}".format) + " (" + of_all["bias"].map(signed) + ")"
    by = figures.groupby([of_all["quantity"], of_all["level"]], sort=False).first().unstack(fill_value="")
    levels = [*of_all["level"].unique()]
    rows = [[words[quantity], *by.loc[quantity, levels]] for quantity in words if quantity in by.index]
    shown = with_percentages(errors.assign(words=errors["quantity"].map(words)))
    heads = {"level": "{level}", "counts of": "{words}", "true size": "{size}", "counts": "{n:,.0f}"} | CLOSE
    tables = [
        TextTable("Mean absolute error (bias)", ["counts of", *levels], rows),
        TextTable.filled("How close counts are to the truth, by true size", heads, shown, words=3),
    ]
    (out / "error.html").write_text(
        render("tasks.top_down.accuracy", "declared_accuracy.html", about=dict(about), tables=tables), "utf-8"
    )
    return tables
