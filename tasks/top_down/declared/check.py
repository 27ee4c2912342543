"""Checks of a declaration's release, from its files alone: its spend, the laws of its measurements, and its sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.lifecycle.check import Check, check_spend
from tasks.top_down.check.release import check_laws, check_shares
from tasks.top_down.declared.description import COUNT, MEASUREMENTS, declaration_of, geounit_columns, released_levels
from tasks.top_down.declared.spend import planned_spend
from tasks.top_down.run_plan import law


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the spend against the declaration, every level against the one below it, and the laws."""
    declaration = declaration_of(manifest)
    if manifest["spent"]:
        yield check_spend(planned_spend(declaration), manifest["spent"])
    axes = [axis.name for axis in declaration.product.axes]
    if manifest["noise"]:
        yield check_laws(declaration.form.name, manifest)
        yield check_shares(declaration.form.name, manifest)
    below = None
    for level in reversed(released_levels(declaration)):
        names = [column.name for column in geounit_columns(declaration, level)]
        table = pd.read_parquet(release / f"parquet/{level}.parquet")
        faults = ["it has counts that are not positive"] if (table[COUNT] <= 0).any() else []
        sums = table.groupby(names + axes, sort=True)[COUNT].sum()
        if below is not None and not sums.equals(below.groupby(names + axes, sort=True)[COUNT].sum()):
            faults.append("it is not the sum of the level below it")
        yield Check(f"sums of {level}", f"{len(table):,} rows", tuple(faults))
        below = table
    for each in declaration.levels if manifest["measurements"] else ():
        columns = ["query", "share", "variance_numerator", "variance_denominator"]
        rows = pd.read_parquet(release / f"{MEASUREMENTS}/{each.name}.parquet", columns=columns).drop_duplicates()
        asked = declaration.allocation.queries[each.name]
        wrong = [
            f"{query} with the share {share} has another law"
            for query, share, *exact in rows.itertuples(index=False)
            if query not in asked
            or "/".join(exact).removesuffix("/1")
            != str(law(declaration.allocation, Fraction(share), asked[query]).parameter)
        ]
        yield Check(f"laws of {each.name}", f"{len(rows)} laws", tuple(wrong))
