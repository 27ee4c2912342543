"""Checks of a release of the Detailed DHC-B, from its files alone: budgets, laws, margins, sums, numbers of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from privacy.noise.margins import margin_of_error
from tasks.releases.check import Check, NotChecked, check_same
from tasks.releases.received import path_in
from tasks.releases.release_database import ReleaseDatabase
from tasks.releases.statements import Line, Unshown
from tasks.safetab.check import (
    KEYS,
    Positive,
    Tabulated,
    common_not_checked,
    jurisdiction_of,
    level_queries,
    level_statements,
    negative,
    read_tabulated,
    safetab_statements,
    wrong_groups,
    wrong_margins,
)
from tasks.safetab.configuration import read_described
from tasks.safetab.households.manifest import statements_of
from tasks.safetab.households.run import Configuration
from tasks.safetab.households.tables import TABLES, CountTable
from tasks.safetab.levels import Level

LeftOut = Annotated[dict[str, int], Field()]
EMPTY = (  # the rows of no table
    "SELECT '' AS REGION_TYPE, '' AS REGION_ID, '' AS ITERATION_CODE, '' AS of, '' AS file, '' AS cell, 0 AS COUNT "
    "WHERE false"
)


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    configuration = read_described(manifest["configuration"], Configuration, jurisdiction_of(manifest))
    tabulated, totals = read_tabulated(release), manifest["options"]["totals"]
    with ReleaseDatabase(release) as database:
        levels = {
            str(level): _level(database, release, manifest, configuration, level, tabulated)
            for level in configuration.levels(jurisdiction_of(manifest))
        }
    truth, estimated = "NOT_PRIVATE" in manifest, "estimates" in manifest["options"]
    why = "the groups and their totals are of another release"
    return {
        **safetab_statements(manifest, configuration, totals=totals),
        "totals": {"digest": totals, "from": Unshown(Line, why), "left_out": Unshown(LeftOut, why)},
        "levels": levels,
        "statements": statements_of(truth=truth, estimated=estimated),
    }


def _level(
    database: ReleaseDatabase,
    release: Path,
    manifest: Mapping[str, Any],
    configuration: Configuration,
    level: Level,
    tabulated: Tabulated,
) -> dict[str, Any]:
    """Return the statements of a level: its domain, thresholds, laws, and the groups that its tables have."""
    regions, iterations = tabulated.of(level)
    noise = level_statements(manifest, configuration, level)
    if noise:
        noise["stability_parts"] = _parts(manifest["levels"][str(level)])
    published: dict[str, dict[str, int]] = {}
    for table in configuration.tables(level):
        published[table.name] = dict.fromkeys(table.details, 0)
        for code in table.details:
            if (name := file_of(table, code, level)) in manifest["files"]:
                found = f"SELECT count(DISTINCT ({KEYS})) FROM {database.parquet(path_in(release, name))}"
                published[table.name][code] = database.execute(found).fetchall()[0][0]
    return {
        "regions": len(regions),
        "iterations": len(iterations),
        "thresholds": {
            table.name: list(configuration.thresholds[table.key][level]) for table in configuration.tables(level)
        },
        "groups_published": published,
        **noise,
    }


def _parts(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a level's stability: that of ethnicity as it is stated, and the rest for races."""
    ethnicity = int(stated["stability_parts"]["ethnicity"])
    why = "it follows from the parameter files; both parts sum to the stability"
    return {"race": int(stated["stability"]) - ethnicity, "ethnicity": Unshown(Positive, why)}


def file_of(table: CountTable, code: str, level: Level, folder: str = "parquet") -> str:
    """Return the name of the file of a detail's tables of a level."""
    return f"{folder}/{table.name}/{code}/{level.slug}.parquet"


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the rows, sums and margins of every table, and the rows and sums of estimates."""
    configuration = read_described(manifest["configuration"], Configuration, jurisdiction_of(manifest))
    yield from common_not_checked(manifest, configuration)
    yield NotChecked("levels.*.groups_published, and which groups", "they follow from the totals of another release")
    levels, tabulated = configuration.levels(jurisdiction_of(manifest)), read_tabulated(release)
    with ReleaseDatabase(release) as database:
        for level in levels:
            for table in configuration.tables(level):
                yield _check_details(database, release, manifest, level, table)
                for detail, code in enumerate(table.details):
                    if file_of(table, code, level) in manifest["files"]:
                        yield _check_table(
                            database, release, manifest, configuration, level, levels, table, detail, tabulated
                        )
            if manifest["options"].get("estimates"):
                yield NotChecked("parquet/estimates/*: *", "estimates are not made again")
                yield _check_estimates(database, release, manifest, level)
            elif any(name.startswith("parquet/estimates/") for name in manifest["files"]):
                yield Check("estimates", "", ("there are estimates, and no run asked for them",))


def _check_details(
    database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], level: Level, table: CountTable
) -> Check:
    """Check that every group has one table of one detail."""
    files = [
        path_in(release, name) for code in table.details if (name := file_of(table, code, level)) in manifest["files"]
    ]
    if not files:
        return Check(f"{table.name} of {level}", "0 groups")
    ((groups, several),) = database.execute(
        f"SELECT count(*), count(*) FILTER (files > 1) FROM (SELECT count(DISTINCT filename) AS files "
        f"FROM {database.parquet(*files)} GROUP BY {KEYS})"
    ).fetchall()
    return Check(
        f"{table.name} of {level}", f"{groups:,} groups", (f"{several:,} groups have several tables",) * bool(several)
    )


def _check_table(
    database: ReleaseDatabase,
    release: Path,
    manifest: Mapping[str, Any],
    configuration: Configuration,
    level: Level,
    levels: Sequence[Level],
    table: CountTable,
    detail: int,
    tabulated: Tabulated,
) -> Check:
    """Check that the groups of a file are of the level's domain, and have the rows, sums and margins of its detail."""
    code = table.details[detail]
    path = path_in(release, file_of(table, code, level))
    rows = f"(SELECT *, {table.column} AS cell FROM {database.parquet(path)})"
    ((there, cells),) = database.execute(
        "SELECT count(*), list_sort(list(DISTINCT cells)) "
        f"FROM (SELECT list_sort(list(cell)) AS cells FROM {rows} GROUP BY {KEYS})"
    ).fetchall()
    faults = list(check_same("", "", [[str(cell) for cell in table.rows(detail)]], cells).faults) if there else []
    faults += ["it has no groups"] * (not there)
    faults += wrong_groups(database, rows, level, tabulated)
    clipped = not configuration.allow_negative_counts
    faults += _wrong_sums(database, rows, table, detail, clipped=clipped)
    if clipped and (below := negative(database, rows)):
        faults.append(f"{below:,} counts are negative")
    if "NOT_PRIVATE" not in manifest:
        counts = f"SELECT REGION_TYPE, REGION_ID, MOE, 'cell ' || cell AS kind FROM {rows}"

        def margins(of: Level) -> dict[str, set[int]]:
            if configuration.budgets[table.key][of] == 0:
                return {}
            law = level_queries(manifest, configuration, of).law(table.name)
            return {f"cell {cell}": {margin_of_error(law, len(places))} for cell, places in table.rows(detail).items()}

        faults += wrong_margins(database, manifest, level, levels, counts, margins)
    return Check(f"{code} of {level}", f"{there:,} groups", tuple(faults))


def _check_estimates(database: ReleaseDatabase, release: Path, manifest: Mapping[str, Any], level: Level) -> Check:
    """Check that the groups that have both tables have estimates of all their rows, and of both tables one total."""
    faults, made = [], {}
    for kind, folder, number in (("counts", "parquet", "COUNT"), ("estimates", "parquet/estimates", "ESTIMATE")):
        found = [
            f"SELECT {KEYS}, '{table.name}' AS of, '{code}' AS file, {table.column} AS cell, {number} AS COUNT "
            f"FROM {database.parquet(path_in(release, path))}"
            for table in TABLES.values()
            for code in table.details
            if (path := file_of(table, code, level, folder)) in manifest["files"]
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
                faults += [f"{code}: {fault}" for fault in _wrong_sums(database, rows, table, detail, clipped=False)]
    return Check(f"estimates of {level}", f"{groups:,} groups", tuple(faults))


def _wrong_sums(
    database: ReleaseDatabase, rows: str, table: CountTable, detail: int, *, clipped: bool
) -> Iterator[str]:
    """Compare every sum with its measured cells, to the unit; clipped cells sum to a clipped count or more.

    rows: the source of the rows of a table.
    """
    sums, wrong = [], []
    for cell, places in table.rows(detail).items():
        parts = ", ".join(f"'{table.measured[detail][place]}'" for place in places)
        whole = f"sum(COUNT) FILTER (cell = '{cell}')"
        sums.append(f"{whole} {'>' if clipped else '<>'} sum(COUNT) FILTER (cell IN ({parts})) AS wrong_{cell}")
        wrong.append(f"count_if(wrong_{cell})")
    (found,) = database.execute(
        f"SELECT {', '.join(wrong)} FROM (SELECT {', '.join(sums)} FROM {rows} GROUP BY {KEYS})"
    ).fetchall()
    for cell, groups in zip(table.rows(detail), found, strict=True):
        if groups:
            yield f"{groups:,} counts of cell {cell} are not the sum of its parts"
