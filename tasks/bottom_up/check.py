"""Check bottom-up releases from their files alone: the manifest against the design, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.bottom_up.measure import BottomUpPlan, read_design
from tasks.bottom_up.release import designed, marginal, table_rows, tables_of
from tasks.releases.check import Check, NotChecked
from tasks.releases.published import check_rows
from tasks.releases.received import NotOfRelease, path_in


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those that every release makes."""
    design = read_design(manifest["design"])
    return designed(design, _cases(design, _read(release, design)[1]))


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the cells of the histogram, its totals, and every table against the sums of the histogram."""
    yield NotChecked("names.csv*", "names are public and do not follow from the release")
    yield NotChecked("points.csv*", "points are public and do not follow from the release")
    design = read_design(manifest["design"])
    count, reported = _read(release, design)
    yield _check_cells(design, count, reported)
    if not design.marginals:
        yield NotChecked("parquet/histogram.parquet: COUNT", "the release has no sums of its counts")
    step = float(design.declared.grid)
    for table, names in tables_of(design).items():
        rows = pq.read_table(path_in(release, f"parquet/{table}.parquet"))
        made = table_rows(design, names, *marginal(design, names, count, reported))
        yield check_rows(f"margins of error and sums of {table}", [(rows, made)], clipped=design.clip, step=step)


def _read(release: Path, design: BottomUpPlan) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the count of each cell of the histogram, in steps, and which cells the release has."""
    histogram = design.declared.histogram
    table = pd.read_parquet(path_in(release, "parquet/histogram.parquet"))
    place = np.zeros(len(table), np.int64)
    for axis in histogram.axes:
        level = pd.Index(axis.codes).get_indexer(pd.Index(table[axis.name].astype(str)))
        if (level < 0).any():
            raise NotOfRelease(f"the histogram has a value of {axis.name} that is not declared")
        place = place * len(axis) + level
    count, reported = np.zeros(histogram.cells, np.int64), np.zeros(histogram.cells, np.bool_)
    count[place] = np.rint(table["COUNT"].to_numpy() / float(design.declared.grid)).astype(np.int64)
    reported[place] = True
    return count, reported


def _cases(design: BottomUpPlan, reported: NDArray[np.bool_]) -> list[dict[str, str]]:
    """Return what was done with each group of totals; a group without cells in the release is inconsistent."""
    if design.totals is None:
        return []
    totals, group = design.totals, design.groups_of_totals(np.arange(len(reported)))
    there = {*group[reported].tolist()}

    def case(number: int) -> str:
        return "unpublished" if number not in totals.published else "calibrated" if number in there else "inconsistent"

    label = design.declared.histogram.groups(totals.names).label
    return [{**label(number), "case": case(number)} for number in np.unique(group[group >= 0]).tolist()]


def _check_cells(design: BottomUpPlan, count: NDArray[np.int64], reported: NDArray[np.bool_]) -> Check:
    """Check that every possible cell of a reported group exists, and that calibrated groups sum to their totals."""
    histogram, faults = design.declared.histogram, []
    expected = histogram.possible.copy()
    if design.totals is not None:
        group, published = design.groups_of_totals(np.arange(len(count))), design.totals.published
        there = np.unique(group[reported])
        expected &= np.isin(group, there) | ~np.isin(group, list(published))
        for number in there.tolist():
            if number in published and not design.clip and count[group == number].sum() != published[number]:
                label = histogram.groups(design.totals.names).label(number)
                faults.append(f"the counts of {label} do not sum to their total")
    if (differ := int((expected != reported).sum())) > 0:
        faults.append(f"{differ:,} declared cells are missing or unexpected")
    return Check("cells of the histogram", f"{histogram.cells:,} cells", tuple(faults))
