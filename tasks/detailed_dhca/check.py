"""Checks of a release of the Detailed DHC-A, from its files alone: budgets, laws, margins, sums, numbers of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from privacy.accounting.composition import spend
from privacy.noise.exact import parse_exact
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhca.details import CELLS_OF, TABLE_NAMES
from tasks.lifecycle.check import Check, check_same, check_spend
from tasks.lifecycle.received import path_in
from tasks.lifecycle.release_database import ReleaseDatabase
from tasks.population_groups.check import KEYS, check_laws, query_law, wrong_margins
from tasks.population_groups.levels import named_level

ALONE = "totals alone"  # of groups without a table
QUERIES = ("total_only", "stage_1", "stage_2")


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the budgets and laws of every level, and its tables against them."""
    levels, exact = manifest["levels"], "NOT_PRIVATE" in manifest
    if not exact:
        budgets = {name: parse_exact(level["queries"]["total_only"]["budget"]) for name, level in levels.items()}
        yield check_spend(spend(manifest["spent"]["definition"], budgets.values()), manifest["spent"])
    with ReleaseDatabase(release) as database:
        for name, level in levels.items():
            if not exact:
                yield _check_laws(name, level, manifest["spent"]["definition"])
            yield from _check_tables(database, release, manifest, name)


def _check_laws(name: str, level: Mapping[str, Any], definition: Any) -> Check:
    """Recompute each query's law from its budget and the stability, and the split of the level's budget."""
    queries, faults = level["queries"], []
    budgets = {query: parse_exact(queries[query]["budget"]) for query in QUERIES}
    if budgets["stage_1"] + budgets["stage_2"] != budgets["total_only"]:
        faults.append("both steps do not spend the level's budget")
    return check_laws(name, level, definition, *faults)


def _check_tables(database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], name: str) -> Iterator[Check]:
    slug = named_level(name).slug
    t1, t2 = (database.parquet(path_in(release, f"parquet/{table}/{slug}.parquet")) for table in ("t1", "t2"))
    database.execute(
        "CREATE OR REPLACE TABLE grouped AS SELECT t1.*, coalesce(rows, 0) AS cells, sexes, of_cells "
        f"FROM {t1} AS t1 LEFT JOIN (SELECT {KEYS}, count(*) - 2 AS rows, "
        "sum(COUNT) FILTER (AGESTART = '*') AS sexes, sum(COUNT) FILTER (AGESTART <> '*') AS of_cells "
        f"FROM {t2} GROUP BY {KEYS}) USING ({KEYS})"
    )
    if manifest["configuration"]["allow_negative_counts"]:
        yield _check_sums(database, name)
    yield _check_groups(database, manifest["levels"][name]["groups_published"], name)
    if "NOT_PRIVATE" not in manifest:
        yield _check_margins(database, manifest, name, t2)


def _check_sums(database: ReleaseDatabase, name: str) -> Check:
    """Compare every total with its two sexes and its cells, to the unit."""
    wrong = "SELECT count(*) FILTER (COUNT <> sexes OR COUNT <> of_cells), count(*) FROM grouped WHERE cells > 0"
    wrong_cells, groups = database.execute(wrong).fetchall()[0]
    faults = (f"{wrong_cells:,} totals are not the sum of their cells",) if wrong_cells else ()
    return Check(f"sums of {name}", f"{groups:,} groups", faults)


def _check_groups(database: ReleaseDatabase, published: Mapping[str, int], name: str) -> Check:
    """Compare the numbers of groups by their table with those by detail in the manifest."""
    by_cells = dict(database.execute("SELECT cells, count(*) FROM grouped GROUP BY cells").fetchall())
    names = {cells if cells > 1 else 0: TABLE_NAMES[name] for name, cells in CELLS_OF.items()}
    stated = dict.fromkeys(names.values(), 0)
    for detail, groups in published.items():
        stated[TABLE_NAMES.get(detail, TABLE_NAMES["total"])] += groups
    found = {words: by_cells.pop(cells, 0) for cells, words in names.items()}
    found |= {f"{cells} cells": groups for cells, groups in by_cells.items()}
    told, made = (", ".join(f"{n} {words}" for words, n in each.items() if n) for each in (stated, found))
    return check_same(f"groups published of {name}", f"{sum(stated.values()):,} groups", made, told)


def _check_margins(database: ReleaseDatabase, manifest: Mapping[str, Any], name: str, t2: str) -> Check:
    """Recompute every margin. t2: the source of the rows of the level's table T2."""
    counts = (
        f"SELECT REGION_TYPE, REGION_ID, MOE, CASE cells WHEN 0 THEN '{ALONE}' ELSE cells || ' cells' END AS kind "
        "FROM grouped UNION ALL SELECT REGION_TYPE, REGION_ID, t2.MOE, "
        f"CASE AGESTART WHEN '*' THEN cells // 2 ELSE 1 END || ' cells' FROM {t2} AS t2 JOIN grouped USING ({KEYS})"
    )
    ((number,),) = database.execute(f"SELECT count(*) FROM ({counts})").fetchall()
    faults = wrong_margins(database, manifest, name, counts, partial(_margins, manifest))
    return Check(f"margins of {name}", f"{number:,} counts", tuple(faults))


def _margins(manifest: Mapping[str, Any], name: str) -> dict[str, set[int]]:
    """Return the margins that a level's counts can have, by the cells that a count sums, or of totals alone."""
    level, definition = manifest["levels"][name], manifest["spent"]["definition"]
    laws = {query: query_law(definition, level, query) for query in QUERIES}
    sums = {cells // part for cells in CELLS_OF.values() for part in (1, 2, cells) if cells > 1}
    margins = {f"{cells} cells": {margin_of_error(laws["stage_2"], cells)} for cells in sums}
    return margins | {ALONE: {margin_of_error(laws["total_only"]), margin_of_error(laws["stage_2"])}}
