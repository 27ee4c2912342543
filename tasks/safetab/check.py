"""Checks of releases of all SafeTabs: what their manifests must state, groups of the domain, margins of counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from spine.settings import Jurisdiction
from tasks.releases.check import NotChecked
from tasks.releases.description import Table
from tasks.releases.received import read_in
from tasks.releases.release_database import ReleaseDatabase
from tasks.releases.statements import PUBLIC_FILE, Digest, Unshown
from tasks.safetab.configuration import SafeTabConfiguration
from tasks.safetab.description import ITERATIONS, REGIONS
from tasks.safetab.iterations import PARAMETER_FILES
from tasks.safetab.levels import Level
from tasks.safetab.manifest import designed, noise_facts
from tasks.safetab.noise import LevelQueries, queries_of

Positive = Annotated[int, Field(ge=1)]
Sets = Annotated[list[list[str]], Field()]
KEYS = "REGION_TYPE, REGION_ID, ITERATION_CODE"


@dataclass(frozen=True)
class Tabulated:
    """What is tabulated: regions by type, iterations by level and granularity, and those that are TotalOnly."""

    regions: Mapping[str, list[str]]
    iterations: Mapping[tuple[int, bool], list[str]]
    total_only: frozenset[str]

    def of(self, level: Level) -> tuple[list[str], list[str]]:
        """Return the regions and the iterations of a level."""
        key = level.iteration_level, level.nation_or_state
        return self.regions.get(level.region_type, []), self.iterations.get(key, [])


def read_tabulated(release: Path) -> Tabulated:
    """Read the tables of what a release tabulates."""
    regions: dict[str, list[str]] = {}
    for row in _text_rows(release, REGIONS):
        regions.setdefault(row["REGION_TYPE"], []).append(row["REGION_ID"])
    iterations: dict[tuple[int, bool], list[str]] = {}
    total_only = set()
    for row in _text_rows(release, ITERATIONS):
        for granularity, column in ((True, "NATION_STATE"), (False, "SUB_STATE")):
            if row[column] == "True":
                iterations.setdefault((int(row["LEVEL"]), granularity), []).append(row["ITERATION_CODE"])
        total_only |= {row["ITERATION_CODE"]} if row["TOTAL_ONLY"] == "True" else set()
    return Tabulated(regions, iterations, frozenset(total_only))


def _text_rows(release: Path, table: Table) -> list[dict[str, str]]:
    header, *lines = read_in(release, table.text).decode("utf-8").splitlines()
    names = header.split("|")
    return [dict(zip(names, line.split("|"), strict=True)) for line in lines]


def jurisdiction_of(manifest: Mapping[str, Any]) -> Jurisdiction:
    """Return the jurisdiction of a release. Raises KeyError for another region."""
    return {"US": "us", "PR": "pr"}[manifest["region"]]  # type: ignore[return-value]


def safetab_statements(
    manifest: Mapping[str, Any], configuration: SafeTabConfiguration, **options: object
) -> dict[str, Any]:
    """Return the statements that the releases of every SafeTab have. options: those that this SafeTab alone has."""
    stated, jurisdiction = manifest["options"], jurisdiction_of(manifest)
    geography = {"blocks": Unshown(Positive, PUBLIC_FILE), "GRF-C": Unshown(Digest, PUBLIC_FILE)}
    own = {"region": jurisdiction, "coterminous": stated["coterminous"], "coterminous_list": stated["coterminous_list"]}
    estimates = {"estimates": True} if "estimates" in stated else {}
    truth, digests = "NOT_PRIVATE" in manifest, manifest["parameter_files"]
    equated = stated["coterminous"] is True
    return {
        **designed(configuration, jurisdiction, digests, own | options | estimates, geography, truth=truth),
        "parameter_files": dict.fromkeys(PARAMETER_FILES, Unshown(Digest, PUBLIC_FILE)),
        "coterminous_sets": Unshown(Sets, "the blocks of regions are in no file of the release") if equated else [],
    }


def level_statements(manifest: Mapping[str, Any], configuration: SafeTabConfiguration, level: Level) -> dict[str, Any]:
    """Return the statements of the noise of a level: the laws of its queries at the stability that is stated."""
    if "NOT_PRIVATE" in manifest:
        return {}
    stability = manifest["levels"][str(level)]["stability"]
    why = "it follows from the parameter files; the laws are those of the stability that is stated"
    return {**noise_facts(queries_of(configuration, level, int(stability))), "stability": Unshown(Positive, why)}


def level_queries(manifest: Mapping[str, Any], configuration: SafeTabConfiguration, level: Level) -> LevelQueries:
    """Return the queries of a level: its budgets, at the stability that a release states."""
    return queries_of(configuration, level, int(manifest["levels"][str(level)]["stability"]))


def wrong_groups(database: ReleaseDatabase, source: str, level: Level, tabulated: Tabulated) -> Iterator[str]:
    """Yield the fault of rows that are of no group of a level. source: the source of a table's rows."""
    regions, iterations = tabulated.of(level)
    for name, column in (("regions", regions), ("iterations", iterations)):
        database.register(name, pa.table({"code": pa.array(column, pa.string())}))
    ((strange,),) = database.execute(
        f"SELECT count(*) FROM {source} WHERE REGION_TYPE <> {database.value(level.region_type)} "
        "OR REGION_ID NOT IN (SELECT code FROM regions) OR ITERATION_CODE NOT IN (SELECT code FROM iterations)"
    ).fetchall()
    if strange:
        yield f"{strange:,} rows are of no group of the level"


def common_not_checked(manifest: Mapping[str, Any], configuration: SafeTabConfiguration) -> Iterator[NotChecked]:
    """Yield what no check of a SafeTab's release covers."""
    for file in ("names.csv*", "points.csv*", "tabulated/hierarchy.csv*"):
        yield NotChecked(file, PUBLIC_FILE)
    unused = ["max_race_codes", "reader", "run_us", "run_pr"] + ["state_filter_us"] * (manifest["region"] == "PR")
    levels = configuration.levels(jurisdiction_of(manifest))
    unused += ["zero_suppression_chance"] * all(level.nation_or_state for level in levels)
    for name in unused:
        if hasattr(configuration, name):
            yield NotChecked(f"configuration.{name}", "no number of the release depends on it in a way that shows")


def negative(database: ReleaseDatabase, source: str) -> int:
    """Return the number of counts below 0. source: the source of a table's rows."""
    ((found,),) = database.execute(f"SELECT count(*) FROM {source} WHERE COUNT < 0").fetchall()
    return int(found)


def wrong_margins(
    database: ReleaseDatabase,
    manifest: Mapping[str, Any],
    level: Level,
    levels: Sequence[Level],
    counts: str,
    margins: Callable[[Level], Mapping[str, set[int]]],
) -> Iterator[str]:
    """Compare the margins of a level's counts with those of their laws; a coterminous region may have a donor's.

    counts: a query of REGION_TYPE, REGION_ID, MOE, and `kind`, the kind of a count. margins: returns those that the
    counts of a level can have, by their kind. levels: all of the release.
    """
    regions = [member.split(" ", 1) for members in manifest["coterminous_sets"] for member in members]
    columns = {"REGION_TYPE": [kind for kind, _ in regions], "REGION_ID": [code for _, code in regions]}
    database.register("sets", pa.table({key: pa.array(column, pa.string()) for key, column in columns.items()}))
    rows = database.execute(
        f"SELECT kind, MOE, sets.REGION_ID IS NOT NULL AS shared, count(*) FROM ({counts}) "
        "LEFT JOIN sets USING (REGION_TYPE, REGION_ID) GROUP BY ALL"
    ).fetchall()
    own = margins(level)
    donors = [margins(other) for other in levels if other.iteration_level == level.iteration_level]
    for kind, margin, shared, number in rows:
        allowed = own[kind].union(*(donor.get(kind, ()) for donor in donors if shared))
        if margin not in allowed:
            yield f"{number:,} counts of {kind} have the margin {margin}, not {sorted(allowed)}"
