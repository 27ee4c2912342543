"""The errors of a declaration's counts on marked data, by level and query group, in the declaration's own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import Closeness, ErrorSums
from spine.top_down.histogram import TrueHistograms
from spine.top_down.queries import group_sums, query_group
from tasks.lifecycle.workers import Workers
from tasks.releases.pages import render
from tasks.releases.pages.text_table import TextTable
from tasks.top_down.accuracy.errors import averaged, repetitions, sums_by_size
from tasks.top_down.accuracy.report import CLOSE, signed, with_percentages
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.run import DeclaredRun
from tasks.top_down.declared.source import ALL, check_estimator
from tasks.top_down.declared.tables import query_title
from tasks.top_down.declared.wide import estimate
from tasks.top_down.estimate.topdown import load_estimates
from tasks.top_down.source import load_histograms

KEYS = ["product", "level", "quantity", "size"]
COUNTS_AT_ONCE = 1 << 23


def measure_errors(
    run: DeclaredRun, workers: Workers, seeds: Iterable[int], estimators: Sequence[Estimator] = ("topdown",)
) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Measure once a seed, and estimate by each estimator, on tabulated, marked data.

    Returns errors by level and query, and its words. The errors are those of `averaged`, by estimator where there are
    several; a product is the declaration, a quantity a query group. Raises Refused as `check_estimator` does.
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
    queries = dict.fromkeys(query for (level,) in levels for query in declaration.queries(level))
    return errors.drop(columns=["product", "spine", *one]), {
        query: query_title(declaration, query) for query in queries
    }


def compare_level(run: DeclaredRun, level: str) -> pd.DataFrame:
    """Return sums of errors of a level's released counts by query group and class of the true size. Of marked data.

    Cells that no record can be in are left out.
    """
    declaration, spine, rows = run.declared.declaration, run.declared.hierarchy.spine, []
    product, number = declaration.product, len(spine.starts[spine.levels.index(level)])
    for query in declaration.queries(level):
        group = query_group(product, query)
        possible = np.bincount(group.coordinate, product.possible, group.width) > 0
        step = max(COUNTS_AT_ONCE // group.width, 1)
        for first in range(0, number, step):
            last = min(first + step, number)
            exact = load_histograms(run.counts_folder(run.name, ALL, level), TrueHistograms, first, last)
            estimates = load_estimates(run, run.name, ALL, level, first, last)
            true, released = (
                group_sums(group, last - first, each.row, each.cell, each.count)[:, possible].ravel()
                for each in (exact, estimates)
            )
            rows += [(run.name, level, query, *row) for row in sums_by_size(true, released - true)]
    table = pd.DataFrame(rows, columns=[*KEYS, *ErrorSums._fields, *Closeness._fields])
    return table.groupby(KEYS, as_index=False, sort=False).sum()


def write_report(
    out: Path, errors: pd.DataFrame, words: Mapping[str, str], about: Mapping[str, str]
) -> list[TextTable]:
    """Write OUT/error.csv and error.html; return the tables. words: of each query group."""
    errors.to_csv(out / "error.csv", index=False)
    if "estimator" in errors:
        errors = errors.assign(level=errors["level"] + ", " + errors["estimator"])
    of_all = errors[errors["size"] == "all"]
    by = of_all.set_index(["level", "quantity"])
    rows = []
    for level in of_all["level"].unique():
        cells = [
            f"{by['mae'][level, query]:.2f} ({signed(by['bias'][level, query])})" if (level, query) in by.index else ""
            for query in words
        ]
        rows.append([level, *cells])
    shown = with_percentages(errors.assign(words=errors["quantity"].map(words)))
    heads = {"level": "{level}", "query group": "{words}", "true size": "{size}", "counts": "{n:,.0f}"} | CLOSE
    tables = [
        TextTable("Mean absolute error (bias)", ["level", *words.values()], rows),
        TextTable.filled("How close counts are to the truth, by true size", heads, shown, words=3),
    ]
    (out / "error.html").write_text(
        render("tasks.top_down.accuracy", "declared_accuracy.html", about=dict(about), tables=tables), "utf-8"
    )
    return tables
