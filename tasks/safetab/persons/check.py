"""Checks of a release of the Detailed DHC-A, from its files alone: what it must state, groups, rows, sums, margins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from privacy.noise import margins
from tasks.releases.check import Check, NotChecked
from tasks.releases.received import path_in
from tasks.releases.release_database import ReleaseDatabase
from tasks.releases.statements import PUBLIC_FILE, Line, Unshown
from tasks.safetab.check import (
    KEYS,
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
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import AGE_RANGES, AGES, CELLS_OF, DETAILS, SEXES, TOTAL, TOTAL_ONLY, WIDTHS
from tasks.safetab.persons.manifest import statements_of
from tasks.safetab.persons.run import PERSONS, Configuration

ALONE = "totals alone"  # of groups without a table


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    configuration = read_described(manifest["configuration"], Configuration, jurisdiction_of(manifest))
    tabulated = read_tabulated(release)
    estimated = "estimates" in manifest["options"]
    with ReleaseDatabase(release) as database:
        levels = {}
        for level in configuration.levels(jurisdiction_of(manifest)):
            _read_groups(database, release, level)
            levels[str(level)] = _level(database, manifest, configuration, level, tabulated)
    made = "estimates are not made again"
    return {
        **safetab_statements(manifest, configuration, **({"spine": False} if "spine" in manifest["options"] else {})),
        "levels": levels,
        **({"estimates": dict.fromkeys(levels, Unshown(dict[str, Any], made))} if estimated else {}),
        "statements": statements_of(truth="NOT_PRIVATE" in manifest, estimated=estimated),
        "spine": Unshown(Line, PUBLIC_FILE),
    }


def _level(
    database: ReleaseDatabase,
    manifest: Mapping[str, Any],
    configuration: Configuration,
    level: Level,
    tabulated: Tabulated,
) -> dict[str, Any]:
    """Return the statements of a level: its domain, thresholds, laws, and the groups that its tables have."""
    regions, iterations = (len(each) for each in tabulated.of(level))
    return {
        "regions": regions,
        "iterations": iterations,
        "groups": regions * iterations,
        "thresholds": list(configuration.thresholds[PERSONS][level]),
        "suppressed_up_to": _suppressed(manifest, configuration, level),
        "groups_published": _published(database, level, tabulated),
        **level_statements(manifest, configuration, level),
    }


def _suppressed(manifest: Mapping[str, Any], configuration: Configuration, level: Level) -> int | None:
    """Return the largest noisy total that is suppressed in a level, as `suppression.suppression_threshold`."""
    if level.nation_or_state or not configuration.zero_suppression_chance:
        return None
    if "NOT_PRIVATE" in manifest:
        return 0
    law = level_queries(manifest, configuration, level).law("stage_2")
    return margins.suppression_threshold(law, configuration.zero_suppression_chance)


def _published(database: ReleaseDatabase, level: Level, tabulated: Tabulated) -> dict[str, int]:
    """Return the numbers of groups by detail; of totals alone, nation and state have those that are TotalOnly."""
    only = tuple(sorted(tabulated.total_only)) if level.nation_or_state else ()
    database.register("totals_only", pa.table({"ITERATION_CODE": pa.array(only, pa.string())}))
    by_cells = dict(database.execute("SELECT cells, count(*) FROM grouped GROUP BY cells").fetchall())
    found = "SELECT count(*) FROM grouped SEMI JOIN totals_only USING (ITERATION_CODE) WHERE cells = 0"
    ((total_only,),) = database.execute(found).fetchall()
    counts = {DETAILS[detail]: by_cells.get(int(WIDTHS[detail]), 0) for detail in AGES}
    return {DETAILS[TOTAL]: by_cells.get(0, 0) - total_only, **counts, DETAILS[TOTAL_ONLY]: total_only}


def _read_groups(database: ReleaseDatabase, release: Path, level: Level) -> str:
    """Make `grouped`: T1 of a level, with the cells of each group's T2 and their sums. Return the source of T2."""
    t1, t2 = (database.parquet(path_in(release, f"parquet/{table}/{level.slug}.parquet")) for table in ("t1", "t2"))
    database.execute(
        "CREATE OR REPLACE TABLE grouped AS SELECT t1.*, coalesce(rows, 0) AS cells, sexes, of_cells, ages "
        f"FROM {t1} AS t1 FULL JOIN (SELECT {KEYS}, count(*) - 2 AS rows, "
        "sum(COUNT) FILTER (AGESTART = '*') AS sexes, sum(COUNT) FILTER (AGESTART <> '*') AS of_cells, "
        f"list_sort(list((AGESTART, AGEEND, SEX))) AS ages FROM {t2} GROUP BY {KEYS}) USING ({KEYS})"
    )
    return t2


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the groups, rows, sums and margins of every level."""
    yield NotChecked("parquet/t1/*: COUNT", "a total without a table is shown once")
    if manifest["options"].get("estimates"):
        yield NotChecked("parquet/estimates/*", "estimates are not made again")
    if any(name.startswith("spine/") for name in manifest["files"]):
        yield NotChecked("spine/*", "the spine is public, and not made again")
    configuration = read_described(manifest["configuration"], Configuration, jurisdiction_of(manifest))
    tabulated = read_tabulated(release)
    levels = configuration.levels(jurisdiction_of(manifest))
    yield from common_not_checked(manifest, configuration)
    with ReleaseDatabase(release) as database:
        for level in levels:
            t2 = _read_groups(database, release, level)
            yield _check_groups(database, manifest, configuration, level, tabulated, t2)
            yield _check_sums(database, level, t2, clipped=not configuration.allow_negative_counts)
            if "NOT_PRIVATE" not in manifest:
                yield _check_margins(database, manifest, configuration, level, levels, t2)


def _check_groups(
    database: ReleaseDatabase,
    manifest: Mapping[str, Any],
    configuration: Configuration,
    level: Level,
    tabulated: Tabulated,
    t2: str,
) -> Check:
    """Check that groups are of the level's domain, all of them where none is suppressed, with the rows of a detail."""
    faults = [*wrong_groups(database, "grouped", level, tabulated), *wrong_groups(database, t2, level, tabulated)]
    ((groups, bare, least),) = database.execute(
        "SELECT count(*), count(*) FILTER (COUNT IS NULL), min(COUNT) FILTER (cells = 0) FROM grouped"
    ).fetchall()
    faults += [f"{bare:,} groups have cells and no total"] * bool(bare)
    regions, iterations = tabulated.of(level)
    lowest = _suppressed(manifest, configuration, level)
    if lowest is None and groups != len(regions) * len(iterations):
        faults.append(f"it has {groups:,} groups, not all {len(regions) * len(iterations):,}")
    if lowest is not None and not manifest["coterminous_sets"] and least is not None and least <= lowest:
        faults.append(f"a total of {least} is published, and totals up to {lowest} are suppressed")
    rows = {
        len(starts) * 2: sorted(
            [("*", "*", sex) for sex in map(str, SEXES)]
            + [(str(start), str(end), sex) for start, end in AGE_RANGES[detail] for sex in map(str, SEXES)]
        )
        for detail, starts in AGES.items()
    }
    found = database.execute("SELECT DISTINCT cells, ages FROM grouped WHERE cells <> 0").fetchall()
    strange = [cells for cells, ages in found if sorted(map(_row, ages)) != rows.get(cells)]
    faults += [f"groups with {cells} cells have rows of no table" for cells in sorted(set(strange))]
    return Check(f"groups of {level}", f"{groups:,} groups", tuple(faults))


def _row(values: Any) -> tuple[str, ...]:
    """Return the key of a row of T2 within its group."""
    return tuple(values.values() if isinstance(values, dict) else values)


def _check_sums(database: ReleaseDatabase, level: Level, t2: str, *, clipped: bool) -> Check:
    """Compare every total with its two sexes and its cells, to the unit; clipped parts sum to a clipped total or more.

    t2: the source of the rows of the level's table T2.
    """
    differs = ">" if clipped else "<>"
    wrong = f"count(*) FILTER (COUNT {differs} sexes OR COUNT {differs} of_cells OR sexes {differs} of_cells)"
    wrong_cells, groups = database.execute(f"SELECT {wrong}, count(*) FROM grouped WHERE cells > 0").fetchall()[0]
    faults = [f"{wrong_cells:,} totals are not the sum of their cells"] * bool(wrong_cells)
    if clipped and (below := negative(database, "grouped") + negative(database, t2)):
        faults.append(f"{below:,} counts are negative")
    return Check(f"sums of {level}", f"{groups:,} groups", tuple(faults))


def _check_margins(
    database: ReleaseDatabase,
    manifest: Mapping[str, Any],
    configuration: Configuration,
    level: Level,
    levels: Sequence[Level],
    t2: str,
) -> Check:
    """Recompute every margin. t2: the source of the rows of the level's table T2."""
    counts = (
        f"SELECT REGION_TYPE, REGION_ID, MOE, CASE cells WHEN 0 THEN '{ALONE}' ELSE cells || ' cells' END AS kind "
        "FROM grouped UNION ALL SELECT REGION_TYPE, REGION_ID, t2.MOE, "
        f"CASE AGESTART WHEN '*' THEN cells // 2 ELSE 1 END || ' cells' FROM {t2} AS t2 JOIN grouped USING ({KEYS})"
    )
    ((number,),) = database.execute(f"SELECT count(*) FROM ({counts})").fetchall()
    found = wrong_margins(database, manifest, level, levels, counts, partial(_margins, manifest, configuration))
    return Check(f"margins of {level}", f"{number:,} counts", tuple(found))


def _margins(manifest: Mapping[str, Any], configuration: Configuration, level: Level) -> dict[str, set[int]]:
    """Return the margins that a level's counts can have, by the cells that a count sums, or of totals alone."""
    queries = level_queries(manifest, configuration, level)
    sums = {cells // part for cells in CELLS_OF.values() for part in (1, 2, cells) if cells > 1}
    own = {f"{cells} cells": {queries.margin("stage_2", cells)} for cells in sums}
    return own | {ALONE: {queries.margin("total_only"), queries.margin("stage_2")}}
