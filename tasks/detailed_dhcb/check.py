"""Checks of a release of the Detailed DHC-B, from its files alone: budgets, laws, margins, sums, numbers of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from privacy.accounting.composition import spend
from privacy.noise.exact import parse_exact
from privacy.noise.margins import margin_of_error
from tasks.detailed_dhcb.tables import TABLES, CountTable
from tasks.lifecycle.check import Check, check_same, check_spend
from tasks.lifecycle.received import path_in
from tasks.lifecycle.release_database import ReleaseDatabase
from tasks.population_groups.check import KEYS, check_laws, query_law, wrong_margins
from tasks.population_groups.levels import named_level

EMPTY = (  # the rows of no table
    "SELECT '' AS REGION_TYPE, '' AS REGION_ID, '' AS ITERATION_CODE, '' AS of, '' AS file, '' AS cell, 0 AS COUNT "
    "WHERE false"
)


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check]:
    """Check the budgets and laws of every level, and its tables against them."""
    levels, exact = manifest["levels"], "NOT_PRIVATE" in manifest
    if not exact:
        definition = manifest["spent"]["definition"]
        budgets = [parse_exact(query["budget"]) for level in levels.values() for query in level["queries"].values()]
        yield check_spend(spend(definition, budgets, "household"), manifest["spent"])
        yield from (check_laws(name, level, definition) for name, level in levels.items())
    with ReleaseDatabase(release) as database:
        for name, level in levels.items():
            for table, stated in level["groups_published"].items():
                for detail, groups in enumerate(stated.values()):
                    if groups:
                        yield _check_table(database, release, manifest, name, TABLES[table], detail, groups)
            if manifest["options"].get("estimates"):
                yield _check_estimates(database, release, manifest, name)


def _check_table(
    database: ReleaseDatabase,
    release: Path,
    manifest: Mapping[str, Any],
    name: str,
    table: CountTable,
    detail: int,
    groups: int,
) -> Check:
    """Compare the groups, sums and margins of a file with what its manifest says of them."""
    code = table.details[detail]
    path = path_in(release, f"parquet/{table.name}/{code}/{named_level(name).slug}.parquet")
    rows = f"(SELECT *, {table.column} AS cell FROM {database.parquet(path)})"
    ((there, cells),) = database.execute(
        "SELECT count(*), list_sort(list(DISTINCT cells)) "
        f"FROM (SELECT list_sort(list(cell)) AS cells FROM {rows} GROUP BY {KEYS})"
    ).fetchall()
    faults = list(check_same("", "", ([[str(cell) for cell in table.rows(detail)]], groups), (cells, there)).faults)
    if manifest["configuration"]["allow_negative_counts"]:
        faults += _wrong_sums(database, rows, table, detail)
    if "NOT_PRIVATE" not in manifest:
        counts = f"SELECT REGION_TYPE, REGION_ID, MOE, 'cell ' || cell AS kind FROM {rows}"
        faults += wrong_margins(database, manifest, name, counts, partial(_margins, manifest, table, detail))
    return Check(f"{code} of {name}", f"{groups:,} groups", tuple(faults))


def _check_estimates(database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], name: str) -> Check:
    """Check that the groups that have both tables have estimates of all their rows, and of both tables one total."""
    faults, slug, made = [], named_level(name).slug, {}
    for kind, folder, number in (("counts", "parquet", "COUNT"), ("estimates", "parquet/estimates", "ESTIMATE")):
        found = [
            f"SELECT {KEYS}, '{table.name}' AS of, '{code}' AS file, {table.column} AS cell, {number} AS COUNT "
            f"FROM {database.parquet(path_in(release, path))}"
            for table in TABLES.values()
            for code in table.details
            if (path := f"{folder}/{table.name}/{code}/{slug}.parquet") in manifest["files"]
        ]
        made[kind] = f"({' UNION ALL '.join(found) or EMPTY})"
    counts, estimates = made["counts"], made["estimates"]
    expected = (
        f"(SELECT * FROM {counts} SEMI JOIN (SELECT {KEYS} FROM {counts} GROUP BY ALL "
        f"HAVING count(DISTINCT of) = {len(TABLES)}) USING ({KEYS}))"
    )
    ((groups, other),) = database.execute(
        f"SELECT count(DISTINCT ({KEYS})), count(*) FILTER (expected.of IS NULL OR estimates.of IS NULL) "
        f"FROM {expected} AS expected FULL JOIN {estimates} AS estimates USING ({KEYS}, of, file, cell)"
    ).fetchall()
    if other:
        faults.append(f"{other:,} rows are not both of a count and of an estimate")
    if manifest["configuration"]["allow_negative_counts"]:
        ((wrong,),) = database.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {estimates} WHERE cell = '0' "
            f"GROUP BY {KEYS} HAVING min(COUNT) <> max(COUNT))"
        ).fetchall()
        faults += [f"{wrong:,} groups have another total in each table"] * bool(wrong)
        for table in TABLES.values():
            for detail, code in enumerate(table.details):
                rows = f"(FROM {estimates} WHERE file = '{code}')"
                faults += [f"{code}: {fault}" for fault in _wrong_sums(database, rows, table, detail)]
    return Check(f"estimates of {name}", f"{groups:,} groups", tuple(faults))


def _wrong_sums(database: ReleaseDatabase, rows: str, table: CountTable, detail: int) -> Iterator[str]:
    """Compare every sum with its measured cells, to the unit. rows: the source of the rows of a table."""
    sums, wrong = [], []
    for cell, places in table.rows(detail).items():
        parts = ", ".join(f"'{table.measured[detail][place]}'" for place in places)
        whole = f"sum(COUNT) FILTER (cell = '{cell}')"
        sums.append(f"{whole} <> sum(COUNT) FILTER (cell IN ({parts})) AS wrong_{cell}")
        wrong.append(f"count_if(wrong_{cell})")
    (found,) = database.execute(
        f"SELECT {', '.join(wrong)} FROM (SELECT {', '.join(sums)} FROM {rows} GROUP BY {KEYS})"
    ).fetchall()
    for cell, groups in zip(table.rows(detail), found, strict=True):
        if groups:
            yield f"{groups:,} counts of cell {cell} are not the sum of its parts"


def _margins(manifest: Mapping[str, Any], table: CountTable, detail: int, level: str) -> dict[str, set[int]]:
    """Return the margin of each cell of a level's tables of a detail."""
    facts = manifest["levels"][level]
    if table.name not in facts["queries"]:
        return {}
    law = query_law(manifest["spent"]["definition"], facts, table.name)
    return {f"cell {cell}": {margin_of_error(law, len(places))} for cell, places in table.rows(detail).items()}
