"""Release: the bottom-up histogram, its marginals by addition, and the manifest.

Text is pipe-delimited; its Parquet twin also has the margins of error. Rows are in the order of the declaration.
Geographies that calibration dropped are left out of all tables and sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.bottom_up.calibration import FALSE_ALARM
from privacy.tables.published import margins_of
from tasks.bottom_up.measure import CASES, CHOICES, FINAL, BottomUpPlan
from tasks.bottom_up.release_tables import description, table_name
from tasks.geography.public_regions import write_regions
from tasks.lifecycle.commit import manifest_of
from tasks.lifecycle.files import load_object, open_array
from tasks.lifecycle.reservation import Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.releases.describe import write_descriptions
from tasks.releases.manifest import GUARANTEE, noise_law
from tasks.releases.report import in_short, write_report
from tasks.releases.text_twin import write_twins

TITLE = "Bottom-up histogram by the two-tailed geometric mechanism"  # `release` in manifests
ROWS_AT_ONCE = 1 << 20
STATEMENTS_BOTTOM_UP = {
    "guarantee": GUARANTEE,
    "margins": "A margin of error is the smallest m with P(|noise| > m) <= 0.05 for the noise that was added to the "
    "count, or to the cells that it sums, before calibration and clipping.",
    "clipping": "Where negative counts are clipped each published count is, after all sums: the clipped counts are "
    "biased upwards, and marginals may differ from the sums of their clipped cells.",
    "calibration": "Counts of a calibrated group sum to its published total. Groups whose published total does not "
    "agree with the data are not reported, and are in no marginal.",
    "noisy_test": "Whether a published total agrees was judged on the noisy counts alone, by the margin of their sum's "
    "noise and the tolerance, so it is post-processing. Were all totals those of the data, any would be dropped with "
    f"probability {FALSE_ALARM} at most.",
}


def write_release(run: RunDirectory, out: Path) -> None:
    """Write the tables and the manifest into a folder."""
    design = load_object(run / CHOICES, BottomUpPlan)
    count, reported = (np.asarray(open_array(run / FINAL, name)) for name in ("count", "reported"))
    for table, names in tables_of(design).items():
        _write(out, table, design, names, count, reported)
    if regions := design.declared.regions():
        write_regions(run, out, regions.__contains__)
    stated = designed(design, load_object(run / CASES, list[dict[str, str]]))
    manifest = manifest_of(run, TITLE, load_object(run / VALIDATED, Input).mark, stated)
    described, spend = description(manifest), design.mechanism.spend
    changed = (
        "Calibration and the removal of negative counts change a count afterwards." * described.tables[0].dependent
    )
    short = in_short(out, described, manifest, list(_published(manifest)), changed=changed)
    write_report(None, out, manifest, spend, "Bottom-up histogram", short)
    write_descriptions(out, described, manifest)


def _published(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the content of a release's counts, and the number of groups that it leaves out."""
    histogram = manifest["histogram"]
    yield f"Sums of one histogram of {histogram['cells']:,} cells by {', '.join(histogram['axes'])}."
    if dropped := sum(group["case"] == "inconsistent" for group in manifest["calibration"]["groups"]):
        yield f"{dropped:,} groups whose published total does not agree are left out of every table."


def tables_of(design: BottomUpPlan) -> dict[str, tuple[str, ...]]:
    """Return the axes, levels and recodes of every table of a release, by table name."""
    return {"histogram": design.declared.histogram.names} | {table_name(names): names for names in design.marginals}


def _write(
    out: Path,
    table: str,
    design: BottomUpPlan,
    names: Sequence[str],
    count: NDArray[np.int64],
    reported: NDArray[np.bool_],
) -> None:
    rows, draws, counts = marginal(design, names, count, reported)

    def part(first: int, last: int) -> pa.Table:
        return table_rows(design, names, rows[first:last], draws[first:last], counts[first:last])

    parts = (part(first, first + ROWS_AT_ONCE) for first in range(0, len(rows), ROWS_AT_ONCE))
    write_twins(part(0, 0).schema, parts, out / f"parquet/{table}.parquet", out / f"{table}.csv", left_out=["MOE"])


def marginal(
    design: BottomUpPlan, names: Sequence[str], count: NDArray[np.int64], reported: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], ...]:
    """Return the groups by these axes, levels and recodes with a cell in the release, their numbers of cells, and sums.

    count: one per cell of the histogram, in steps. reported: the cells that the release has.
    """
    histogram = design.declared.histogram
    draws, counts = (histogram.marginal(np.where(reported, each, 0), names) for each in (1, count))
    rows = np.flatnonzero(draws)
    return rows, draws[rows], counts[rows]


def table_rows(
    design: BottomUpPlan,
    names: Sequence[str],
    rows: NDArray[np.int64],
    draws: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> pa.Table:
    """Return the published rows of a marginal's table, from what `marginal` returns."""
    groups = design.declared.histogram.groups(names)
    columns: dict[str, Any] = {
        name: pa.array(codes, pa.string()).take(pa.array(place))
        for codes, (name, place) in zip(groups.codes, groups.places(rows).items(), strict=True)
    }
    margins = margins_of(design.mechanism.law, draws)
    counts = counts.clip(min=0) if design.clip else counts
    return pa.table({**columns, "COUNT": _in_units(design, counts), "MOE": _in_units(design, margins)})


def _in_units(design: BottomUpPlan, steps: NDArray[np.int64]) -> NDArray[Any]:
    grid = design.declared.grid
    if grid.denominator == 1:
        return steps * int(grid)
    return steps.astype(np.float64) * grid.numerator / grid.denominator  # rounded once, up to products of 2^53


def designed(design: BottomUpPlan, cases: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the statements that follow from a design. cases: what was done with each group of totals."""
    mechanism, declared = design.mechanism, design.declared
    statements = ["guarantee", "margins"] + ["clipping"] * design.clip
    if design.totals is not None:
        statements += ["calibration", "noisy_test"]
    return {
        "spent": mechanism.spend.as_json(),
        "states": list(declared.form.states),
        "design": design.described(),
        "noise": {
            **noise_law(mechanism.law),
            "sensitivity": mechanism.sensitivity,
            "step": str(declared.grid),
            "sampler": "exact",
        },
        "histogram": {
            "cells": declared.histogram.cells,
            "axes": {axis.name: len(axis) for axis in declared.histogram.axes},
            "regions": declared.region_columns,
            "declaration": declared.digest(),
            "records": mechanism.record,
            "unit": mechanism.unit,
        },
        "calibration": {
            "method": design.calibration if design.totals is not None else None,
            "tolerance": str(design.tolerance),
            "groups": list(cases),
        },
        "clipped": design.clip,
        "configuration_digest": design.digest(),
        "statements": {name: STATEMENTS_BOTTOM_UP[name] for name in statements},
    }
