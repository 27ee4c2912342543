"""Checks of a bottom-up release, from its files alone: what its design says of its manifest, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tasks.bottom_up.measure import Design, read_design
from tasks.bottom_up.release import designed, table_parts, tables_of
from tasks.releases.check import Check, NotChecked
from tasks.releases.received import NotOfRelease, path_in

NUMBERS = ["COUNT", "MOE"]


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    design = read_design(manifest["design"])
    return designed(design, _cases(design, _read(release, design)[1]))


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the cells of the histogram, its totals, and every table against the sums of the histogram."""
    yield NotChecked("names.csv*", "names are public, and of no file of the release")
    yield NotChecked("points.csv*", "points are public, and of no file of the release")
    design = read_design(manifest["design"])
    count, reported = _read(release, design)
    yield _check_cells(design, count, reported)
    if tables_of(design).keys() == {"histogram"}:
        yield NotChecked("parquet/histogram.parquet: COUNT", "the release has no sums of its counts")
    for table, names in tables_of(design).items():
        yield _check_table(release, design, table, names, count, reported)


def _read(release: Path, design: Design) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the count of each cell of the histogram, in steps, and the cells that the release has."""
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


def _groups(design: Design) -> NDArray[np.int64]:
    """Return the group of totals that each possible cell is in; -1 for structural zeros, and without totals."""
    every = np.arange(design.declared.histogram.cells)
    possible = design.declared.histogram.possible
    return np.where(possible, design.totals.grouping.of(every), -1) if design.totals else np.full(len(every), -1)


def _cases(design: Design, reported: NDArray[np.bool_]) -> list[dict[str, str]]:
    """Return what was done with each group of totals: one without cells in the release is inconsistent."""
    if design.totals is None:
        return []
    group, grouping = _groups(design), design.totals.grouping
    there = set(np.unique(group[reported]).tolist())
    return [
        {
            **grouping.label(number),
            "case": "unpublished"
            if number not in design.totals.published
            else "calibrated"
            if number in there
            else "inconsistent",
        }
        for number in np.unique(group[group >= 0]).tolist()
    ]


def _check_cells(design: Design, count: NDArray[np.int64], reported: NDArray[np.bool_]) -> Check:
    """Check that each possible cell of a reported group is there, and that calibrated groups sum to their totals."""
    histogram, faults = design.declared.histogram, []
    expected = histogram.possible.copy()
    if design.totals is not None:
        group, published = _groups(design), design.totals.published
        there = np.unique(group[reported])
        expected &= np.isin(group, there) | ~np.isin(group, list(published))
        for number in there.tolist():
            if number in published and not design.clip and count[group == number].sum() != published[number]:
                faults.append(f"the counts of {design.totals.grouping.label(number)} do not sum to their total")
    if (differ := int((expected != reported).sum())) > 0:
        faults.append(f"{differ:,} declared cells are missing, or not of it")
    return Check("cells of the histogram", f"{histogram.cells:,} cells", tuple(faults))


def _check_table(
    release: Path,
    design: Design,
    name: str,
    names: Sequence[str],
    count: NDArray[np.int64],
    reported: NDArray[np.bool_],
) -> Check:
    """Compare a table with the sums of the histogram and the margins of their laws.

    Clipped cells sum to a clipped count or more.
    """
    table = pd.read_parquet(path_in(release, f"parquet/{name}.parquet"))
    expected = pa.concat_tables(table_parts(design, names, count, reported)[1]).to_pandas()
    if not table[list(names)].astype(str).equals(expected[list(names)].astype(str)):
        return Check(f"sums of {name}", f"{len(table):,} rows", ("its rows are not those of the histogram",))
    faults = []
    if not np.allclose(table["MOE"], expected["MOE"], rtol=1e-12, atol=0):
        faults.append("margins of error are not those of the law")
    counts, sums, step = table["COUNT"].to_numpy(), expected["COUNT"].to_numpy(), float(design.declared.grid)
    if not np.allclose(counts / step, np.rint(counts / step), rtol=0, atol=1e-6):
        faults.append(f"counts are not whole steps of {design.declared.grid}")
    if design.clip and (counts < 0).any():
        faults.append("counts are negative")
    if not np.allclose(counts, np.minimum(counts, sums) if design.clip else sums, rtol=1e-12, atol=1e-9):
        faults.append(f"counts are {'more than the' if design.clip else 'not'} sums of the histogram")
    return Check(f"margins of error and sums of {name}", f"{len(table):,} rows", tuple(faults))
