"""The tables that a tabulation system would publish of a release (SafeTab-P, section 5.3.4), by post-processing.

Negative counts become 0. Then a group is suppressed, with its table, whose total "alone" is greater than the total of
the same region "alone or in any combination". The paper names both rules and not their order; after the first a
contradiction is one that a reader would see. A group whose partner was not published is not compared.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tasks.detailed_dhca.description import description
from tasks.lifecycle.datapackage import write_package
from tasks.lifecycle.description import Column, Description, Table
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import is_whole, read_manifest, require_release, shown_marks
from tasks.lifecycle.new_folder import new_folder
from tasks.lifecycle.received import path_in
from tasks.lifecycle.staging import PIPES
from tasks.population_groups.levels import Level, named_level
from tasks.population_groups.tabulated import ITERATIONS_FILE

ALONE, COMBINED = " alone", " alone or in any combination"
CHANGES_FILE = "changes.csv"
GROUP = ["REGION_ID", "ITERATION_CODE"]


class Changes(NamedTuple):
    """What was changed at a level, a count a rule."""

    level: str
    groups: int
    negative_totals: int
    negative_cells: int
    suppressed_groups: int
    suppressed_cells: int
    not_compared: int


WORDS = {
    "groups": "groups of the release",
    "negative_totals": "totals (T1) that were negative and are 0",
    "negative_cells": "counts by sex and age (T2) that were negative and are 0",
    "suppressed_groups": "groups suppressed: their total alone was greater than alone or in any combination",
    "suppressed_cells": "counts by sex and age of these groups",
    "not_compared": "groups alone whose partner was not published: they stay",
}
CHANGES = Table(
    "What was changed, by level and rule",
    (
        Column("level", "text", "the level"),
        *(Column(name, "rows", words, type="integer") for name, words in WORDS.items()),
    ),
    text=CHANGES_FILE,
    key=("level",),
)


def partners(names: Mapping[str, str]) -> dict[str, str]:
    """Return by the code of an iteration "alone" that of the same one "alone or in any combination"."""
    codes = {name: code for code, name in names.items()}
    return {
        code: codes[other]
        for code, name in names.items()
        if COMBINED not in name and (other := name.replace(ALONE, COMBINED, 1)) != name and other in codes
    }


def contradicted(totals: pa.Table, partner: Mapping[str, str]) -> tuple[pa.Table, int]:
    """Return the groups, by region and iteration, that exceed their partner, and how many have none to compare with."""
    keys = zip(*(totals[name].to_pylist() for name in GROUP), strict=True)
    count = dict(zip(keys, totals["COUNT"].to_pylist(), strict=True))
    pairs = {group: (group[0], partner[group[1]]) for group in count if group[1] in partner}
    found = [group for group, other in pairs.items() if other in count and count[group] > count[other]]
    rows = {
        name: pa.array([group[at] for group in found], totals.schema.field(name).type) for at, name in enumerate(GROUP)
    }
    return pa.table(rows), sum(other not in count for other in pairs.values())


def tabulate(release: Path, out: Path) -> list[Changes]:
    """Write OUT with the tables of a release under both rules, and what they changed. Raises Refused."""
    require_release(release)
    manifest = read_manifest(release)
    if not str(manifest["release"]).startswith("Detailed DHC-A"):
        raise Refused(f"{release} is not a release of the Detailed DHC-A")
    if manifest.get("NOT_PRIVATE"):
        raise Refused(f"{release} holds exact counts: das tabulate takes a release with noise")
    if not is_whole(release):
        raise Refused(f"{release} is not as it was released: das check says what was changed")
    with path_in(release, ITERATIONS_FILE).open(newline="") as file:
        names = {row["ITERATION_CODE"]: row["ITERATION_NAME"] for row in csv.DictReader(file, delimiter="|")}
    with new_folder(out) as folder:
        changes = [_level(release, folder, named_level(level), partners(names)) for level in manifest["levels"]]
        rows = ["|".join(Changes._fields), *("|".join(map(str, row)) for row in changes)]
        (folder / CHANGES_FILE).write_text("\n".join(rows) + "\n")
        for name in manifest["files"]:
            if name == "names.csv" or name.startswith("tabulated/"):
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(path_in(release, name), folder / name)
        _describe(folder, manifest)
    return changes


def _describe(folder: Path, manifest: Mapping[str, Any]) -> None:
    described = description(manifest)
    tables = tuple(replace(table, dependent=True) if table.has_counts else table for table in described.tables)
    marks = "".join(f" {mark}" for mark in shown_marks(manifest))
    facts = {**manifest, "release": f"{manifest['release']}, as a tabulation system would publish it.{marks}"}
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    write_package(folder, Description((*tables, CHANGES), described.noise, described.names), facts, files)


def _level(release: Path, out: Path, level: Level, partner: Mapping[str, str]) -> Changes:
    t1, t2 = (pq.read_table(path_in(release, f"parquet/{name}/{level.slug}.parquet")) for name in ("t1", "t2"))
    negative = [pc.sum(pc.less(table["COUNT"], 0)).as_py() or 0 for table in (t1, t2)]
    t1, t2 = (_not_negative(table) for table in (t1, t2))
    gone, alone = contradicted(t1, partner)
    suppressed = 0
    for name, before in (("t1", t1), ("t2", t2)):
        table = before.filter(_is_kept(before, gone))
        suppressed = len(before) - len(table)
        text, columns = out / f"{name}/{level.slug}.csv", out / f"parquet/{name}/{level.slug}.parquet"
        for path in (text, columns):
            path.parent.mkdir(parents=True, exist_ok=True)
        pa.csv.write_csv(table.drop_columns(["MOE"]), text, PIPES)
        pq.write_table(table, columns, compression="zstd")
    return Changes(level.name, len(t1), negative[0], negative[1], len(gone), suppressed, alone)


def _is_kept(table: pa.Table, gone: pa.Table) -> pa.Array:
    """Return which rows are of none of these groups."""
    left_out = set(zip(*(gone[name].to_pylist() for name in GROUP), strict=True))
    groups = zip(*(table[name].to_pylist() for name in GROUP), strict=True)
    return pa.array([group not in left_out for group in groups], pa.bool_())


def _not_negative(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.column_names.index("COUNT"), table.schema.field("COUNT"), pc.max_element_wise(table["COUNT"], 0)
    )
