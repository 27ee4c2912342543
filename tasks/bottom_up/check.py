"""Checks of a bottom-up release, from its files alone: its law, its margins of error, and the sums of its marginals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privacy.accounting.composition import spend
from privacy.noise.exact import parse_exact
from privacy.noise.laws import TwoSidedGeometric
from privacy.noise.margins import margin_of_error
from privacy.noise.sampler import check_law
from tasks.lifecycle.check import Check, check_same, check_spend

NUMBERS = ["COUNT", "MOE"]


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check what was spent, the law, and every table against the histogram."""
    noise = manifest["noise"]
    law, step = TwoSidedGeometric(parse_exact(noise["scale"])), parse_exact(noise["step"])
    check_law(law)
    epsilon = parse_exact(str(noise["sensitivity"])) / law.scale
    facts = manifest["histogram"]
    spent = spend("puredp", [epsilon], facts["unit"], str(facts["records"]))
    yield check_spend(spent, manifest["spent"])
    yield check_same("variance of the noise", f"scale {noise['scale']}", law.variance(), noise["variance"])
    histogram = pd.read_parquet(release / "parquet/histogram.parquet")
    factors = [name for name in histogram.columns if name not in NUMBERS]
    for path in sorted((release / "parquet").glob("*.parquet")):
        table = pd.read_parquet(path)
        names = [name for name in table.columns if name not in NUMBERS]
        if not set(names) <= set(factors):  # of coarser groups than the histogram names
            continue
        cells = histogram.groupby(names, sort=False) if names else histogram.groupby(lambda _: 0)
        sums = pd.DataFrame({"SUM": cells["COUNT"].sum(), "CELLS": cells.size()}).reset_index()
        both = table.merge(sums, on=names) if names else table.join(sums)
        faults = [] if len(both) == len(table) == len(sums) else ["its rows are not those of the histogram"]
        margins = {count: margin_of_error(law, count) for count in sorted(set(both["CELLS"].tolist()))}
        expected = [float(margins[count] * step) for count in both["CELLS"]]
        if not np.allclose(both["MOE"], expected, rtol=1e-12, atol=0):
            faults.append("margins of error are not those of the law")
        faults += _faults_of_counts(both["COUNT"].to_numpy(), both["SUM"].to_numpy(), step, manifest["clipped"])
        yield Check(f"margins of error and sums of {path.stem}", f"{len(table):,} rows", tuple(faults))


def _faults_of_counts(counts: NDArray[Any], sums: NDArray[Any], step: Fraction, clipped: bool) -> Iterator[str]:
    """Yield the faults of counts against the sums of the histogram's; clipped cells sum to a clipped count or more."""
    if not np.allclose(counts / float(step), np.rint(counts / float(step)), rtol=0, atol=1e-6):
        yield f"counts are not whole steps of {step}"
    if clipped and (counts < 0).any():
        yield "counts are negative"
    if not np.allclose(counts, np.minimum(counts, sums) if clipped else sums, rtol=1e-12, atol=1e-9):
        yield f"counts are {'more than the' if clipped else 'not'} sums of the histogram"
