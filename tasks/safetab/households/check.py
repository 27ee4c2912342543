"""Checks of a release of the Detailed DHC-B, from its files alone: budgets, laws, margins, sums, numbers of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from privacy.tables.histogram import IntArray
from privacy.tables.published import Published
from tasks.releases.check import Check, NotChecked
from tasks.releases.published import check_rows, numbers_in, rows_of
from tasks.releases.received import path_in
from tasks.releases.statements import Line, Unshown
from tasks.safetab.check import (
    Positive,
    Tabulated,
    common_not_checked,
    jurisdiction_of,
    level_queries,
    level_statements,
    read_tabulated,
    safetab_statements,
)
from tasks.safetab.configuration import read_described
from tasks.safetab.description import GROUP
from tasks.safetab.households.manifest import statements_of
from tasks.safetab.households.run import Configuration
from tasks.safetab.households.tables import TABLES, CountTable
from tasks.safetab.levels import Level

LeftOut = Annotated[dict[str, int], Field()]
KEYS = list(GROUP)
Groups = dict[str, dict[Published, pd.MultiIndex]]  # by table and detail


@dataclass(frozen=True)
class _Received:
    """A release that was received, and what its configuration and the tables of what is tabulated say."""

    folder: Path
    manifest: Mapping[str, Any]

    @cached_property
    def configuration(self) -> Configuration:
        return read_described(self.manifest["configuration"], Configuration, jurisdiction_of(self.manifest))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        levels: tuple[Level, ...] = self.configuration.levels(jurisdiction_of(self.manifest))
        return levels

    @cached_property
    def tabulated(self) -> Tabulated:
        return read_tabulated(self.folder)

    @cached_property
    def coterminous(self) -> list[tuple[str, ...]]:
        members = (member for each in self.manifest["coterminous_sets"] for member in each)
        return [tuple(member.split(" ", 1)) for member in members]

    def path(self, table: Published, level: Level, folder: str = "parquet") -> Path | None:
        """Return the file of a table of a level; None where the release has none."""
        name = f"{folder}/{table.measured}/{table.name}/{level.slug}.parquet"
        return path_in(self.folder, name) if name in self.manifest["files"] else None

    def groups(self, table: Published, level: Level) -> int:
        """Return the number of groups that have a table."""
        path = self.path(table, level)
        return pq.read_metadata(path).num_rows // len(table.rows) if path else 0


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    received, totals = _Received(release, manifest), manifest["options"]["totals"]
    truth, estimated = "NOT_PRIVATE" in manifest, "estimates" in manifest["options"]
    why = "the groups and their totals are of another release"
    return {
        **safetab_statements(manifest, received.configuration, totals=totals),
        "totals": {"digest": totals, "from": Unshown(Line, why), "left_out": Unshown(LeftOut, why)},
        "levels": {str(level): _level(received, level) for level in received.levels},
        "statements": statements_of(truth=truth, estimated=estimated),
    }


def _level(received: _Received, level: Level) -> dict[str, Any]:
    """Return the statements of a level: its domain, thresholds, laws, and the groups that its tables have."""
    manifest, configuration = received.manifest, received.configuration
    regions, iterations = received.tabulated.of(level)
    tables, noise = configuration.tables(level), level_statements(manifest, configuration, level)
    if noise:
        noise["stability_parts"] = _parts(manifest["levels"][str(level)])
    return {
        "regions": len(regions),
        "iterations": len(iterations),
        "thresholds": {table.name: list(configuration.thresholds[table.key][level]) for table in tables},
        "groups_published": {
            table.name: {each.name: received.groups(each, level) for each in table.published} for table in tables
        },
        **noise,
    }


def _parts(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a level's stability: that of ethnicity as it is stated, and the rest for races."""
    ethnicity = int(stated["stability_parts"]["ethnicity"])
    why = "it follows from the parameter files; both parts sum to the stability"
    return {"race": int(stated["stability"]) - ethnicity, "ethnicity": Unshown(Positive, why)}


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the rows, sums and margins of every table, and the rows and sums of estimates."""
    received = _Received(release, manifest)
    yield from common_not_checked(manifest, received.configuration)
    yield NotChecked("levels.*.groups_published, and which groups", "they follow from the totals of another release")
    for table in TABLES.values():
        yield NotChecked(f"parquet/{table.name}/{table.details[0]}/*: COUNT", "a total without a table is shown once")
    for level in received.levels:
        found: Groups = {}
        for table in TABLES.values():
            groups = found[table.name] = dict.fromkeys(table.published, _index([]))
            for each in table.published:
                if path := received.path(each, level):
                    rows = pd.read_parquet(path)
                    groups[each] = pd.MultiIndex.from_frame(rows[KEYS].iloc[:: len(each.rows)])
                    yield _check_table(received, level, table, each, rows, groups[each])
            every = _index(groups.values())
            several = int(every.duplicated().sum())
            faults = (f"{several:,} groups have several tables",) * bool(several)
            yield Check(f"{table.name} of {level}", f"{len(every):,} groups", faults)
        if manifest["options"].get("estimates"):
            yield NotChecked("parquet/estimates/*: *", "estimates are not made again")
            yield _check_estimates(received, level, found)
        elif any(name.startswith("parquet/estimates/") for name in manifest["files"]):
            yield Check("estimates", "", ("there are estimates, and no run asked for them",))


def _index(parts: Iterable[pd.MultiIndex]) -> pd.MultiIndex:
    """Return groups, of several tables one after the other."""
    return reduce(lambda one, other: one.append(other), parts, pd.MultiIndex.from_arrays([[]] * len(KEYS), names=KEYS))


def _columns(groups: pd.MultiIndex) -> dict[str, pa.Array]:
    return {name: pa.array(groups.get_level_values(name), pa.string()) for name in KEYS}


def _check_table(
    received: _Received, level: Level, table: CountTable, each: Published, rows: pd.DataFrame, groups: pd.MultiIndex
) -> Check:
    """Check that the groups of a file are of the level's domain, and have the rows, sums and margins of its detail."""
    keys = _columns(groups)
    stated, counts = (numbers_in(rows, each, keys, name) for name in ("MOE", "COUNT"))
    own, *donors = _margins(received, level, table, each)
    margins, shared = np.tile(own, (len(groups), 1)), groups.droplevel("ITERATION_CODE").isin(received.coterminous)
    for donor in donors:
        margins[shared & (stated == donor).all(axis=1)] = donor
    made = rows_of(each, keys, {"COUNT": each.counts(counts[:, each.single]), "MOE": margins})
    clipped = not received.configuration.allow_negative_counts
    faults = list(check_rows("", rows, made, clipped=clipped).faults)
    faults += ["it has no groups"] * (not len(groups))
    if clipped and (below := int((counts < 0).sum())):
        faults.append(f"{below:,} counts are negative")
    domain = pd.MultiIndex.from_product([[level.region_type], *received.tabulated.of(level)])
    if strange := int((~groups.isin(domain)).sum()):
        faults.append(f"{strange:,} groups are not of the level")
    return Check(f"{each.name} of {level}", f"{len(groups):,} groups", tuple(faults))


def _margins(received: _Received, level: Level, table: CountTable, each: Published) -> list[IntArray]:
    """Return the margins of a group's rows, then those that a coterminous region's may have by another level's noise.

    Raises KeyError for a table without a budget.
    """
    if "NOT_PRIVATE" in received.manifest:
        return [0 * each.draws]
    budgets = received.configuration.budgets[table.key]
    others = [one for one in received.levels if one.iteration_level == level.iteration_level and budgets[one] != 0]
    queries = (level_queries(received.manifest, received.configuration, one) for one in (level, *others))
    return [each.margins(of_level.law(table.name)) for of_level in queries]


def _check_estimates(received: _Received, level: Level, found: Groups) -> Check:
    """Check that the groups that have both tables have estimates of all their rows, and of both tables one total."""
    both = reduce(lambda one, other: one.intersection(other), (_index(groups.values()) for groups in found.values()))
    faults, totals = [], []
    for each, groups in (each for details in found.values() for each in details.items()):
        estimated, path = groups[groups.isin(both)], received.path(each, level, "parquet/estimates")
        keys = _columns(estimated)
        empty = rows_of(each, _columns(_index([])), {"ESTIMATE": np.zeros((0, 1), np.int64)})
        rows = pd.read_parquet(path) if path else empty.to_pandas()
        numbers = numbers_in(rows, each, keys, "ESTIMATE")
        sums = {"ESTIMATE": each.counts(numbers[:, each.single])}
        made = rows_of(each, keys, sums if received.configuration.allow_negative_counts else {})
        faults += [f"{each.name}: {fault}" for fault in check_rows("", rows, made).faults]
        totals.append(pd.Series(numbers[:, 0], estimated))
    if received.configuration.allow_negative_counts:
        wrong = int((pd.concat(totals).groupby(level=KEYS).nunique() > 1).sum())
        faults += [f"{wrong:,} groups have another total in each table"] * bool(wrong)
    return Check(f"estimates of {level}", f"{len(both):,} groups", tuple(faults))
