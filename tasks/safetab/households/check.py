"""Checks of a release of the Detailed DHC-B, from its files alone: budgets, laws, margins, sums, numbers of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from privacy.tables.histogram import IntArray
from privacy.tables.published import Published
from tasks.releases.check import Check, NotChecked
from tasks.releases.published import Keys, check_rows, numbers_in, rows_of
from tasks.releases.received import path_in
from tasks.releases.statements import Line, Unshown
from tasks.releases.text_twin import in_chunks
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
CHUNK_GROUPS = 1 << 14
NO_GROUPS: IntArray = np.zeros(0, np.int64)
Groups = dict[str, dict[Published, IntArray]]  # by table and detail, their numbers in the level's domain


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

    def number(self, level: Level, keys: Keys) -> IntArray:
        """Return the numbers of groups in a level's domain, regions x iterations; -1 for one that is not of it."""
        codes = {
            **dict(zip(KEYS[1:], self.tabulated.of(level), strict=True)),
            KEYS[0]: [level.region_type],
        }
        place = {
            name: pc.fill_null(pc.index_in(keys[name], pa.array(of, pa.string())), -1).to_numpy().astype(np.int64)
            for name, of in codes.items()
        }
        number = place["REGION_ID"] * len(codes["ITERATION_CODE"]) + place["ITERATION_CODE"]
        return np.where(np.minimum.reduce([*place.values()]) < 0, -1, number)

    def keys(self, level: Level, numbers: IntArray) -> Keys:
        """Return the keys of groups by their numbers in a level's domain."""
        regions, iterations = (pa.array(codes, pa.string()) for codes in self.tabulated.of(level))
        region, iteration = np.divmod(numbers, max(len(iterations), 1))
        kind = pa.array([level.region_type] * len(numbers), pa.string())
        return dict(
            zip(KEYS, (kind, regions.take(pa.array(region)), iterations.take(pa.array(iteration))), strict=True)
        )

    def are_coterminous(self, level: Level, regions: pa.Array) -> NDArray[np.bool_]:
        """Return which regions of a level are in a coterminous set."""
        members = (member.split(" ", 1) for each in self.manifest["coterminous_sets"] for member in each)
        codes = [code for kind, code in members if kind == level.region_type]
        return pc.is_in(regions, pa.array(codes, pa.string())).to_numpy(zero_copy_only=False)

    def path(self, table: Published, level: Level, folder: str = "parquet") -> Path | None:
        """Return the file of a table of a level; None where the release has none."""
        name = f"{folder}/{table.measured}/{level.slug}.parquet"
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
            groups = found[table.name] = dict.fromkeys(table.published, NO_GROUPS)
            for each in table.published:
                if path := received.path(each, level):
                    groups[each], faults = _check_table(received, level, table, each, path)
                    yield Check(f"{each.name} of {level}", f"{len(groups[each]):,} groups", tuple(faults))
            every = np.concatenate([*groups.values()])
            several = len(every) - len(np.unique(every))
            faults = [f"{several:,} groups have several tables"] * bool(several)
            yield Check(f"{table.name} of {level}", f"{len(every):,} groups", tuple(faults))
        if manifest["options"].get("estimates"):
            yield NotChecked("parquet/estimates/*: *", "estimates are not made again")
            yield _check_estimates(received, level, found)
        elif any(name.startswith("parquet/estimates/") for name in manifest["files"]):
            yield Check("estimates", "", ("there are estimates, and no run asked for them",))


def _check_table(
    received: _Received, level: Level, table: CountTable, each: Published, path: Path
) -> tuple[IntArray, list[str]]:
    """Check that the groups of a file are of the level's domain, and have the rows, sums and margins of its detail.

    Return the numbers of its groups in the domain, -1 for a group that is not of it, and the faults.
    """
    margins, clipped = _margins(received, level, table, each), not received.configuration.allow_negative_counts
    faults, numbers = list[str](), [NO_GROUPS]
    batches = pq.ParquetFile(path).iter_batches(CHUNK_GROUPS, columns=[*KEYS, each.column, "COUNT", "MOE"])
    for rows in in_chunks(batches, CHUNK_GROUPS * len(each.rows)):
        if len(rows) % len(each.rows):
            faults.append(f"it has {len(rows):,} rows, not {len(each.rows)} for each of its groups")
            break
        keys = {name: rows[name].cast(pa.string()).combine_chunks()[:: len(each.rows)] for name in KEYS}
        numbers.append(received.number(level, keys))
        stated, counts = (rows[name].to_numpy().reshape(-1, len(each.rows)) for name in ("MOE", "COUNT"))
        own, *donors = margins
        right, shared = np.tile(own, (len(counts), 1)), received.are_coterminous(level, keys["REGION_ID"])
        for donor in donors:
            right[shared & (stated == donor).all(axis=1)] = donor
        made = rows_of(each, keys, {"COUNT": each.counts(counts[:, each.single]), "MOE": right})
        faults += check_rows("", rows, made, clipped=clipped).faults
        if clipped and (below := int((counts < 0).sum())):
            faults.append(f"{below:,} counts are negative")
    groups = np.concatenate(numbers)
    faults += ["it has no groups"] * (not len(groups))
    if strange := int((groups < 0).sum()):
        faults.append(f"{strange:,} groups are not of the level")
    return groups, faults


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
    both = reduce(np.intersect1d, (np.concatenate([*groups.values()]) for groups in found.values()))
    both = both[both >= 0]
    clipped, faults = not received.configuration.allow_negative_counts, list[str]()
    groups, totals = [NO_GROUPS], [NO_GROUPS]
    for each, published in (each for details in found.values() for each in details.items()):
        own, path = published[np.isin(published, both)], received.path(each, level, "parquet/estimates")
        keys = received.keys(level, own)
        rows = pq.read_table(path) if path else rows_of(each, keys, {"ESTIMATE": 0}).slice(0, 0)
        numbers = numbers_in(rows, each, keys, "ESTIMATE")
        made = rows_of(each, keys, {} if clipped else {"ESTIMATE": each.counts(numbers[:, each.single])})
        faults += [f"{each.name}: {fault}" for fault in check_rows("", rows, made).faults]
        groups, totals = [*groups, own], [*totals, numbers[:, 0]]
    if not clipped and len(both):
        group, total = np.concatenate(groups), np.concatenate(totals)
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], both)
        extremes = (extreme.reduceat(total[order], starts) for extreme in (np.minimum, np.maximum))
        wrong = int(np.not_equal(*extremes).sum())
        faults += [f"{wrong:,} groups have another total in each table"] * bool(wrong)
    return Check(f"estimates of {level}", f"{len(both):,} groups", tuple(faults))
