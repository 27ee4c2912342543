"""Post-process a release into the tables that a tabulation system would publish (SafeTab-P, section 5.3.4).

First, negative counts become 0. Then a group and its table are suppressed if its total "alone" exceeds the total "alone
or in any combination" of the same region. The paper names both rules, not their order; in this order, the
contradictions are those that a reader would see. A group whose partner was not published is not compared.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import Refused
from tasks.geography.public_regions import REGION_COLUMNS
from tasks.lifecycle.new_folder import new_folder
from tasks.releases.describe import write_descriptions
from tasks.releases.description import Column, Description, Table, integer
from tasks.releases.manifest import is_whole, read_manifest, release_digest, require_release
from tasks.releases.received import path_in
from tasks.releases.text_twin import write_twins
from tasks.safetab.levels import Level, named_level
from tasks.safetab.persons.tables import description as release_description
from tasks.safetab.release_tables import ITERATION, ITERATIONS, OF_GROUP

TABULATED = "as a tabulation system would publish it"  # added to the title of the release
ALONE, COMBINED = " alone", " alone or in any combination"
CHANGES_FILE, GROUPS_FILE = "changes.csv", "changed-groups.csv"
GROUP = ["REGION_ID", "ITERATION_CODE"]
WORDS = {  # what changed at a level; each rule has a count
    "groups": "groups of the release",
    "negative_totals": "totals (T1) that were negative and are 0",
    "negative_cells": "counts by sex and age (T2) that were negative and are 0",
    "suppressed_groups": "groups suppressed: their total alone was greater than alone or in any combination",
    "suppressed_cells": "counts by sex and age of these groups",
    "not_compared": "the total alone or in any combination was itself suppressed, so the group alone stays",
}
CHANGES = Table(
    "What was changed, by level and rule",
    (
        Column("level", "text", "the level"),
        *(integer(name, "rows", words) for name, words in WORDS.items()),
    ),
    text=CHANGES_FILE,
    key=("level",),
)
GROUPS = Table(
    "Which groups were changed, or not compared, and why",
    (
        *REGION_COLUMNS,
        ITERATION,
        Column("change", "code", "what was changed, or not"),
        integer("rows", "rows", "how many rows of the group"),
        Column("why", "text", "the rule in words"),
    ),
    text=GROUPS_FILE,
    key=("REGION_TYPE", *GROUP, "change"),
    references=OF_GROUP,
)


OF_HOUSEHOLDS = (
    ": a Detailed DHC-B follows the totals that it was run with. Its negative counts become 0 in a run with "
    f"allow_negative_counts: false; groups to leave out are in {GROUPS_FILE} of the release of its totals, tabulated"
)


def partners(names: Mapping[str, str]) -> dict[str, str]:
    """Return, by the code of an iteration "alone", the code of its partner "alone or in any combination"."""
    codes = {name: code for code, name in names.items()}
    return {
        code: codes[other]
        for code, name in names.items()
        if COMBINED not in name and (other := name.replace(ALONE, COMBINED, 1)) != name and other in codes
    }


def contradicted(totals: pd.DataFrame, partner: Mapping[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the groups, by region and iteration, that exceed their partner, and those whose partner is missing."""
    alone = totals.assign(PARTNER=totals["ITERATION_CODE"].map(partner)).dropna(subset="PARTNER")
    partners = totals.rename(columns={"ITERATION_CODE": "PARTNER", "COUNT": "MOST"})
    pairs = alone.merge(partners[["REGION_ID", "PARTNER", "MOST"]], how="left", on=["REGION_ID", "PARTNER"])
    return pairs.loc[pairs["COUNT"] > pairs["MOST"], GROUP], pairs.loc[pairs["MOST"].isna(), GROUP]


def tabulate(release: Path, out: Path) -> list[dict[str, Any]]:
    """Write OUT with the tables of a release under both rules, and what these changed. Raises Refused."""
    require_release(release)
    manifest = read_manifest(release)
    if not str(manifest["release"]).startswith("Detailed DHC-A"):
        instead = OF_HOUSEHOLDS * str(manifest["release"]).startswith("Detailed DHC-B")
        raise Refused(f"{release}: das tabulate takes only a release of the Detailed DHC-A{instead}")
    if "tabulated" in manifest:
        raise Refused(f"{release} was made by das tabulate: give the release that it was made from")
    if manifest.get("NOT_PRIVATE"):
        raise Refused(f"{release} holds exact counts: das tabulate takes a release with noise")
    if not is_whole(release):
        raise Refused(f"{release} is not as it was released: das check says what was changed")
    iterations = pd.read_csv(path_in(release, ITERATIONS.text), sep="|", dtype=str, keep_default_na=False)
    names = dict(zip(iterations["ITERATION_CODE"], iterations["ITERATION_NAME"], strict=True))
    with new_folder(out) as folder:
        levels = [_level(release, folder, named_level(level), partners(names)) for level in manifest["levels"]]
        changes = [counts for counts, _ in levels]
        pd.DataFrame(changes).to_csv(folder / CHANGES_FILE, sep="|", index=False)
        pd.concat([groups for _, groups in levels]).to_csv(folder / GROUPS_FILE, sep="|", index=False)
        for name in manifest["files"]:
            if name == "names.csv" or name.startswith("tabulated/"):
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(path_in(release, name), folder / name)
        own = {"release": f"{manifest['release']}, {TABULATED}", "tabulated": release_digest(release)}
        facts = {name: fact for name, fact in manifest.items() if name not in ("files", "format")}
        write_descriptions(folder, description(facts), facts | own)
    return changes


def description(manifest: Mapping[str, Any]) -> Description:
    """Describe the tables of a tabulated release, given its manifest: the release's, and the changes."""
    of_release = release_description(manifest)
    tables = tuple(replace(table, dependent=True) if table.has_counts else table for table in of_release.tables)
    return Description((*tables, CHANGES, GROUPS), of_release.noise, of_release.names)


def _level(release: Path, out: Path, level: Level, partner: Mapping[str, str]) -> tuple[dict[str, Any], pd.DataFrame]:
    """Write the tables of a level; return how many groups and rows each rule changed, and which groups."""
    read = {name: pq.read_table(path_in(release, f"parquet/{name}/{level.slug}.parquet")) for name in ("t1", "t2")}
    tables = {name: table.to_pandas() for name, table in read.items()}
    negative = {name: table.loc[table["COUNT"] < 0, GROUP] for name, table in tables.items()}
    for table in tables.values():
        table["COUNT"] = table["COUNT"].clip(lower=0)
    gone, not_compared = contradicted(tables["t1"], partner)
    suppressed = {}
    for name, table in tables.items():
        is_gone = pd.MultiIndex.from_frame(table[GROUP]).isin(pd.MultiIndex.from_frame(gone))
        suppressed[name] = table.loc[is_gone, GROUP]
        kept = pa.Table.from_pandas(table[~is_gone], read[name].schema, preserve_index=False).replace_schema_metadata()
        file = f"{name}/{level.slug}"
        write_twins(kept.schema, [kept], out / f"parquet/{file}.parquet", out / f"{file}.csv", left_out=["MOE"])
    rows = [tables["t1"][GROUP], negative["t1"], negative["t2"], suppressed["t1"], suppressed["t2"], not_compared]
    found = dict(zip(WORDS, rows, strict=True))
    changed = [of.value_counts(sort=False).reset_index(name="rows").assign(change=name) for name, of in found.items()]
    groups = pd.concat(changed[1:])
    groups = groups.assign(REGION_TYPE=level.region_type, why=groups["change"].map(WORDS))[[*GROUPS.key, "rows", "why"]]
    return {"level": level.name, **{name: len(of) for name, of in found.items()}}, groups
