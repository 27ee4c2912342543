"""Checks of an S-DHC release, from its files alone: laws and spend, margins, and counts that are sums of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privacy.noise.sampler import check_law
from privacy.s_dhc.stability import spend
from tasks.lifecycle.check import Check, check_spend
from tasks.lifecycle.manifest import read_law
from tasks.lifecycle.received import path_in
from tasks.s_dhc.budgets import queries_of, query_facts
from tasks.s_dhc.released_rows import noise_columns
from tasks.s_dhc.tables import AVERAGES, LEVELS, PUBLISHED, REGION_KEYS, PublishedTable

ROUNDING = 1e-12  # of a variance
KEYS = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check what was spent, the law of every query, the margins of every row, and counts that are sums of others."""
    queries = manifest["queries"]
    if queries:
        definition, given = manifest["spent"]["definition"], [*queries_of(manifest).values()]
        yield check_spend(spend(definition, manifest["stability"], given), manifest["spent"])
        yield from _check_queries(manifest)
    tables = {
        name: pd.read_parquet(path_in(release, file))
        for name in PUBLISHED
        if (file := f"{name}/{name}.parquet") in manifest["files"]
    }
    for name, rows in tables.items():
        if queries:
            yield _check_rows(PUBLISHED[name], rows, queries)
    for name, other in (("PH5_num", "PH4"), ("PH8_num", "PH7")):
        if name in tables and other in tables:
            yield _check_sums(PUBLISHED[name], tables[name], tables[other])
    for average in AVERAGES:
        if (file := f"averages/{average.name}.parquet") in manifest["files"]:
            rows = pd.read_parquet(path_in(release, file))
            ordered = (rows["LOW"] <= rows["LOW90"]) & (rows["HIGH90"] <= rows["HIGH"]) | (rows["SAID90"] == "none")
            possible = (rows["RATIO"] - rows["NUMERATOR"] / rows["DENOMINATOR"].clip(lower=1)).abs() < 0.001
            inside = rows["RATIO"].between(rows["LOW"], rows["HIGH"]) | ~possible | (rows["DENOMINATOR"] <= 0)
            faults = () if (ordered & inside).all() else ("an interval does not hold its ratio, or the narrower one",)
            yield Check(f"intervals of {average.name}", f"{len(rows):,} rows", faults)


def _check_queries(manifest: Mapping[str, Any]) -> Iterator[Check]:
    definition, stability = manifest["spent"]["definition"], manifest["stability"]
    for name, query in queries_of(manifest).items():
        law, stated = query.law(definition, stability), manifest["queries"][name]
        check_law(law)
        facts = query_facts(query, definition, stability)
        wrong = [f"{key} is {value}, not {stated.get(key)}" for key, value in facts.items() if stated.get(key) != value]
        yield Check(f"noise of {name}", law.name, tuple(wrong))


def _check_rows(table: PublishedTable, rows: pd.DataFrame, queries: Mapping[str, Any]) -> Check:
    """Check the keys, the margins and the variances of a published table's rows, by the laws of its queries."""
    faults = []
    seen = 0
    for level, codes in LEVELS.items():
        for region, kind in REGION_KEYS.items():
            of = rows[rows["REGION_TYPE"] == kind]
            if "ITERATION_CODE" in rows:
                of = of[of["ITERATION_CODE"].isin(list(codes))]
            elif level != "*":
                continue
            facts = queries.get(f"{table.of.name}/{region}_{level}")
            if facts is None:
                faults += [f"{kind} {level} was not measured"] * bool(len(of))
                continue
            seen += len(of)
            law = read_law(facts)
            for cell, sources in table.cells.items():
                each = of[of[table.column] == cell]
                for name, value in noise_columns(law, len(sources)).items():
                    close = partial(np.isclose, rtol=ROUNDING, atol=0) if name == "VARIANCE" else np.equal
                    if not close(each[name], value).all():
                        faults.append(f"{name} of {kind} {level}, cell {cell}, is not that of the law")
    faults += ["it has other rows"] * (seen != len(rows))
    return Check(f"margins and variances of {table.name}", f"{len(rows):,} rows", tuple(faults))


def _check_sums(table: PublishedTable, rows: pd.DataFrame, source: pd.DataFrame) -> Check:
    own = PUBLISHED[table.of.name]
    of_source = {
        own_cell: cell
        for cell, places in table.cells.items()
        for own_cell in own.cells
        if own.cells[own_cell][0] in places
    }
    summed = source.assign(CELL=source[own.column].map(of_source)).groupby([*KEYS, "CELL"])["COUNT"].sum()
    found = rows.rename(columns={table.column: "CELL"}).set_index([*KEYS, "CELL"])["COUNT"]
    same = len(found) == len(summed) and (found.sort_index() == summed.sort_index()).all()
    return Check(f"{table.name} is {own.name}", f"{len(rows):,} rows", () if same else ("counts differ",))
