"""Checks of a declaration's release, from its files alone: its spend, the laws of its measurements, and its sums."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privacy.noise.exact import parse_exact
from spine.declaration.declaration import Declaration
from tasks.lifecycle.check import Check, check_spend
from tasks.lifecycle.received import path_in
from tasks.top_down.check.release import check_laws, check_shares
from tasks.top_down.declared.description import COUNT, MEASUREMENTS, declaration_of, geounit_columns, released_levels
from tasks.top_down.declared.measurements import read_measurements
from tasks.top_down.declared.public_tables import assemble
from tasks.top_down.run_plan import law, variance

LAW = ("query", "share", "variance_numerator", "variance_denominator", "variance")  # columns of an answer


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the spend against the declaration, every level against the one below it, and the laws."""
    declaration = declaration_of(manifest)
    if manifest["spent"]:
        public = read_measurements(release).public
        differ = ["it is not that of the manifest"] * (json.loads(public.text) != manifest["declaration"])
        yield Check(f"declaration of {MEASUREMENTS}", declaration.form.name, tuple(differ))
        yield check_spend(assemble(public).spend, manifest["spent"])
    axes = [axis.name for axis in declaration.product.axes]
    if manifest["noise"]:
        yield check_laws(declaration.form.name, manifest)
        yield check_shares(declaration.form.name, manifest)
    below = None
    for level in reversed(released_levels(declaration)):
        names = [column.name for column in geounit_columns(declaration, level)]
        table = pd.read_parquet(path_in(release, f"parquet/{level}.parquet"))
        faults = ["it has counts that are not positive"] if (table[COUNT] <= 0).any() else []
        sums = table.groupby(names + axes, sort=True)[COUNT].sum()
        if below is not None and not sums.equals(below.groupby(names + axes, sort=True)[COUNT].sum()):
            faults.append("it is not the sum of the level below it")
        yield Check(f"sums of {level}", f"{len(table):,} rows", tuple(faults))
        below = table
    if manifest["measurements"]:
        yield _check_paths(release, declaration)
        yield from (_check_answers(release, declaration, each.name) for each in declaration.levels)


def _check_answers(release: Path, declaration: Declaration, level: str) -> Check:
    """Check that every geounit of a level has the answers of its queries, each once and of the law of its share."""
    names = [column.name for column in geounit_columns(declaration, level)]
    rows = pd.read_parquet(path_in(release, f"{MEASUREMENTS}/{level}.parquet"), columns=[*names, *LAW])
    allocation, asked = declaration.allocation, declaration.allocation.queries[level]
    of_geounits = rows.groupby(names or np.zeros(len(rows)), observed=True)  # the only geounit at the top has no name
    answers = of_geounits["query"]
    incomplete = int(((answers.size() != len(asked)) | (answers.nunique() != len(asked))).sum())
    faults = [f"{incomplete:,} geounits do not have its {len(asked)} answers, each once"] * bool(incomplete)
    laws = rows[list(LAW)].drop_duplicates()
    for query, share, numerator, denominator, stated in laws.itertuples(index=False):
        own = law(allocation, parse_exact(share), asked[query]) if query in asked else None
        if own is None or (parse_exact(f"{numerator}/{denominator}"), stated) != (own.parameter, variance(own)):
            faults.append(f"{query} with the share {share} has another law")
    return Check(f"answers of {level}", f"{len(laws)} laws", tuple(faults))


def _check_paths(release: Path, declaration: Declaration) -> Check:
    """Check that the shares of the answers on every path through the hierarchy sum to the budget, and to no more."""
    shares: list[tuple[list[str], pd.DataFrame]] = []
    faults, most = [], Fraction(0)
    for each in declaration.levels:
        names = [column.name for column in geounit_columns(declaration, each.name)]
        rows = pd.read_parquet(path_in(release, f"{MEASUREMENTS}/{each.name}.parquet"), columns=[*names, "share"])
        rows = rows.drop_duplicates()
        texts = rows["share"].astype(str)
        rows["share"] = texts.map({text: parse_exact(text) for text in texts.unique()}).astype(object)
        if len(rows) > max(1, len(rows[names].drop_duplicates())):
            faults.append(f"a geounit of {each.name} has answers of two shares")
        path = rows["share"].to_numpy()
        for above, own in shares:  # what a geounit's ancestors were measured with; the only one at the top has no name
            of_each = rows.merge(own, on=above, how="left") if above else own.loc[[0] * len(rows)]
            path = path + of_each.iloc[:, -1].fillna(0).to_numpy()
        most = max([most, *path])
        shares.append((names, rows.rename(columns={"share": f"share of {each.name}"}).reset_index(drop=True)))
    if most != 1:
        faults.append(f"the shares of a path through the hierarchy sum to {most} of the budget, not to 1")
    return Check("shares of every path", f"{len(shares)} levels", tuple(faults))
