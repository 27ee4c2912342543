"""Errors of a release's counts and estimates against the truth of the same input, for any system. NOT PRIVATE.

The system's description says which columns are counts, estimates and margins, which table an estimate belongs to, and
which coded columns divide rows by kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.releases.datapackage import Resource, resources_of
from tasks.releases.description import Description
from tasks.releases.manifest import file_names

KIND = ["TABLE", "OF", "ROW"]  # an error's table, count or estimate, and kind of row
FIGURES = ["COUNTS", "BIAS", "RMSE", "Q90", "MARGIN", "COVERAGE"]
ROUNDING = 1e-9  # allowed in the ends of intervals


def compare(description: Description, release: Path, truth: Path) -> pd.DataFrame:
    """Return how often each error of each kind of row occurred, as `errors` does.

    release, truth: folders with tables of one description, the second with exact counts. Raises KeyError if the truth
    lacks a table or a row of the release.
    """
    exact = {table.name: table for table in resources_of(truth, description, file_names(truth))}
    tables = [each for each in resources_of(release, description, file_names(release)) if not each.is_tidy]
    return pd.concat([part for table in tables if not table.twin for part in _compare(release, table, truth, exact)])


def _compare(release: Path, table: Resource, truth: Path, exact: Mapping[str, Resource]) -> Iterator[pd.DataFrame]:
    """Yield the errors of each column of a table that holds counts or estimates with margins."""
    margins = {column.of: column.name for column in table.with_role("margin")}
    measured = [column for column in table.with_role("count", "estimate") if column.name in margins]
    if not measured:
        return
    of = exact[table.of or table.name]
    rows, true, key = _read(release, table), _read(truth, of), [*of.key]
    (count,) = (column.name for column in of.with_role("count"))
    counts = rows[key].merge(true[[*key, count]], on=key, how="left", validate="one_to_one")[count]
    if counts.isna().any():
        raise KeyError(f"the truth lacks rows of {table.name}")
    kinds = [column.name for column in table.columns if column.codes and rows[column.name].nunique() > 1]
    row = sum((f", {name} " + rows[name] for name in kinds), start=pd.Series("", rows.index)).str[2:]
    for column in measured:
        yield errors(table.name, column.role, row, rows[margins[column.name]], rows[column.name] - counts)


def _read(folder: Path, table: Resource) -> pd.DataFrame:
    texts = {column.name: str for column in table.columns if column.type == "string"}
    read: Any = partial(pd.read_csv, sep=table.delimiter, dtype=texts) if table.is_text else pd.read_parquet
    found: pd.DataFrame = pd.concat([read(folder / path) for path in table.paths], ignore_index=True)
    return found


def errors(table: str, of: str, row: Any, margin: Any, error: Any) -> pd.DataFrame:
    """Return how often each error of a table occurred: columns KIND, MARGIN, ERROR and NUMBER. row: one, or one per
    error.
    """
    found = pd.DataFrame({"TABLE": table, "OF": of.upper(), "ROW": row, "MARGIN": margin, "ERROR": error, "NUMBER": 1})
    return found.groupby([*KIND, "MARGIN", "ERROR"], sort=False, as_index=False).sum()


def figures(found: pd.DataFrame, by: Sequence[str] = KIND) -> pd.DataFrame:
    """Return FIGURES of errors by kind: number, mean, root mean square, 90% quantile, mean margin, coverage."""
    rows = []
    for key, kind in found.groupby([*by], sort=False):
        error, margin, number = (kind[name].to_numpy(np.float64) for name in ("ERROR", "MARGIN", "NUMBER"))
        within, squares = np.abs(error) <= margin + ROUNDING, error**2
        means = [float(np.average(each, weights=number)) for each in (error, squares, margin, within)]
        q90 = float(np.quantile(np.abs(error), 0.9, weights=number, method="inverted_cdf"))
        rows.append([*key, int(number.sum()), means[0], means[1] ** 0.5, q90, *means[2:]])
    return pd.DataFrame(rows, columns=[*by, *FIGURES])
