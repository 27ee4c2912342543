"""Checks of a release of the TopDown Algorithm, from its files alone: budgets, variances, and sums over the levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.sampler import check_law
from tasks.lifecycle.check import Check, check_same
from tasks.lifecycle.manifest import noise_law
from tasks.lifecycle.numbers import told_number


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the products' budgets and laws, and that every level of a state adds up to the same counts."""
    spent = manifest["spent"]
    if spent:
        unit = spent["unit"]
        total = sum((told_number(told[unit]) for told in spent["products"].values()), Fraction(0))
        yield check_same("sum of the products' budgets", unit, str(total), spent["bounded"][unit])
    for product, told in manifest["products"].items():
        if "noise" in told:
            yield _check_laws(product, told["noise"])
        for state in manifest["states"]:
            yield _check_levels(release / "histograms" / product, state, f"histograms of {product}, state {state}")
            yield _check_levels(release / "invariants" / product, state, f"invariants of {product}, state {state}")


def _check_laws(product: str, told: list[Mapping[str, Any]]) -> Check:
    """Recompute the variance of every law from its exact parameter."""
    faults = []
    for each in told:
        gaussian = "sigma_squared" in each
        law: Law
        of = DiscreteGaussian if gaussian else TwoSidedGeometric
        law = of(told_number(each["sigma_squared" if gaussian else "scale"]))
        check_law(law)
        if noise_law(law)["variance"] != each["variance"]:
            faults.append(f"{each['query']} in level {each['level']}: the variance is {law.variance()}")
    return Check(f"laws of {product}", f"{len(told)} queries", tuple(faults))


def _check_levels(folder: Path, state: str, what: str) -> Check:
    """Compare the sums over all geounits of a state, level by level."""
    sums: dict[str, list[int]] = {}
    for path in sorted(folder.rglob(f"{state}.parquet")):
        table = pq.read_table(path).drop_columns("geounit")
        if "cell" in table.column_names:
            cell, count = (table[name].to_numpy().astype(np.int64) for name in ("cell", "count"))
            by_cell = np.zeros(int(cell.max(initial=0)) + 1, np.int64)
            np.add.at(by_cell, cell, count)
            sums[str(path.parent.relative_to(folder))] = np.trim_zeros(by_cell, "b").tolist()
        else:
            columns = [table[name].to_numpy().astype(np.int64).sum() for name in table.column_names]
            sums[str(path.parent.relative_to(folder))] = [int(column) for column in columns]
    first = next(iter(sums.values()), None)
    faults = [f"level {level} adds up to other counts" for level, found in sums.items() if found != first]
    return Check(what, f"{len(sums)} levels", tuple(faults))
