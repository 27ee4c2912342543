"""Checks of a bottom-up release, from its files alone: its law, its margins of error, and the sums of its margins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privacy.noise.laws import TwoSidedGeometric
from privacy.noise.margins import margin_of_error
from privacy.noise.sampler import check_law
from tasks.lifecycle.check import Check, check_same
from tasks.lifecycle.numbers import told_number

NUMBERS = ["COUNT", "MOE"]


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the law, and every table against the histogram."""
    noise, spent = manifest["noise"], manifest["spent"]
    law, step = TwoSidedGeometric(told_number(noise["scale"])), told_number(noise["step"])
    check_law(law)
    scale = told_number(str(noise["sensitivity"])) / told_number(spent["unbounded"]["epsilon"])
    yield check_same("scale of the noise", f"sensitivity {noise['sensitivity']}", str(scale), noise["scale"])
    yield check_same("variance of the noise", f"scale {noise['scale']}", law.variance(), noise["variance"])
    histogram = pd.read_parquet(release / "parquet/histogram.parquet")
    factors = [name for name in histogram.columns if name not in NUMBERS]
    for path in sorted((release / "parquet").glob("*.parquet")):
        table = pd.read_parquet(path)
        names = [name for name in table.columns if name not in NUMBERS]
        yield _check_text(table, release / f"{path.stem}.csv", path.stem)
        if not set(names) <= set(factors):  # of coarser groups than the histogram names
            continue
        cells = histogram.groupby(names, sort=False) if names else histogram.groupby(lambda _: 0)
        sums = pd.DataFrame({"SUM": cells["COUNT"].sum(), "CELLS": cells.size()}).reset_index()
        both = table.merge(sums, on=names) if names else table.join(sums)
        faults = [] if len(both) == len(table) == len(sums) else ["its rows are not those of the histogram"]
        margins = {count: margin_of_error(law, count) for count in sorted(set(both["CELLS"].tolist()))}
        expected = [float(margins[count] * step) for count in both["CELLS"]]
        if not np.allclose(both["MOE"], expected, rtol=1e-12, atol=0):
            faults.append("margins are not those of the law")
        if not manifest["clipped"] and not np.allclose(both["COUNT"], both["SUM"], rtol=1e-12, atol=1e-9):
            faults.append("counts are not sums of the histogram")
        yield Check(f"margins and sums of {path.stem}", f"{len(table):,} rows", tuple(faults))


def _check_text(table: pd.DataFrame, path: Path, name: str) -> Check:
    text = pd.read_csv(path, sep="|", dtype=str, keep_default_na=False, quoting=3)
    same = len(text) == len(table) and np.allclose(text["COUNT"].astype(float), table["COUNT"], rtol=1e-12, atol=0)
    same = same and all(
        (text[column] == table[column].astype(str)).all() for column in text.columns if column != "COUNT"
    )
    return Check(f"{name}, text and Parquet", f"{len(table):,} rows", () if same else ("rows differ",))
