"""Checks of a release of the Detailed DHC-B, from its files alone: what it must state, and every row of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.parquet as pq
from pydantic import Field

from privacy.tables.published import Published
from tasks.releases.check import Check, NotChecked
from tasks.releases.received import path_in
from tasks.releases.statements import Line, Unshown
from tasks.safetab.check import (
    Positive,
    Received,
    ReceivedRows,
    check_groups,
    common_checks,
    find_groups,
    read_rows,
    safetab_statements,
    unshown_stability,
)
from tasks.safetab.group_tables import GroupTables
from tasks.safetab.households.estimates import ESTIMATED
from tasks.safetab.households.manifest import level_facts, statements_of
from tasks.safetab.households.run import SafeTabHConfiguration
from tasks.safetab.households.tables import KINDS, TABLES
from tasks.safetab.levels import Level

LeftOut = Annotated[dict[str, int], Field()]


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those of every release."""
    received, totals = Received(release, manifest, SafeTabHConfiguration), manifest["options"]["totals"]
    why = "the groups and their totals are of another release"
    return {
        **safetab_statements(received, totals=totals),
        "totals": {"digest": totals, "from": Unshown(Line, why), "left_out": Unshown(LeftOut, why)},
        "levels": {str(level): _level(received, level) for level in received.levels},
        "statements": statements_of(truth=received.is_truth, estimated=received.estimated),
    }


def _level(received: Received, level: Level) -> dict[str, Any]:
    """Return the statements of a level."""
    tables = received.configuration.tables(level)
    groups = {
        table.name: [
            _groups(received, level, name, form) for name, forms in table.files.items() for form in forms.values()
        ]
        for table in tables
    }
    facts = level_facts(received.configuration, received.domains[level], received.queries(level), groups)
    parts = {} if received.is_truth else {"stability_parts": _parts(received.manifest["levels"][str(level)])}
    return facts | unshown_stability(received) | parts


def _groups(received: Received, level: Level, name: str, form: Published) -> int:
    file = f"parquet/{name}/{level.slug}.parquet"
    there = file in received.manifest["files"]
    return pq.read_metadata(path_in(received.folder, file)).num_rows // len(form.rows) if there else 0


def _parts(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a level's stability: ethnicity as stated, races from the difference."""
    ethnicity = int(stated["stability_parts"]["ethnicity"])
    why = "it follows from the parameter files; both parts sum to the stability"
    return {"race": int(stated["stability"]) - ethnicity, "ethnicity": Unshown(Positive, why)}


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check every row of every table, and the groups and sums of estimates."""
    received = Received(release, manifest, SafeTabHConfiguration)
    yield from common_checks(received)
    yield NotChecked("levels.*.groups_published, and which groups", "they follow from the totals of another release")
    for table in TABLES.values():
        yield NotChecked(f"parquet/{table.name}/{table.details[0]}/*: COUNT", "a total without a table is shown once")
    for level in received.levels:
        counts = {}
        for name, kind in KINDS.items():
            rows = _rows(received, level, kind)
            details = {file: each.details(kind.TABLES[file]) for file, each in rows.items()}
            counts[name] = yield from check_groups(received, level, kind, rows, details)
            empty = tuple(f"{file} has no groups" for file, each in rows.items() if not len(each.group))
            yield Check(f"files of {level}, {kind.BUDGET}", f"{len(rows)} files", empty)
        if received.estimated:
            whole = {name: groups for name, groups in counts.items() if groups is not None}
            yield from _check_estimates(received, level, whole) if len(whole) == len(KINDS) else ()


def _rows(received: Received, level: Level, kind: type[GroupTables]) -> dict[str, ReceivedRows]:
    """Read the tables of a level. No file exists for a detail that no group has."""
    files = received.manifest["files"]
    there = [name for name in kind.TABLES if f"parquet/{kind.FOLDER}{name}/{level.slug}.parquet" in files]
    return {name: read_rows(received, level, kind, name) for name in there}


def _check_estimates(received: Received, level: Level, counts: Mapping[str, GroupTables]) -> Iterator[Check]:
    """Check that groups with both tables have estimates, at the same details, that add up and share one total."""
    faults, totals = [], []
    t3, t4 = (counts[name].group for name in ("t3", "t4"))
    both = t3[find_groups(t4, t3) >= 0]
    for name, kind in ESTIMATED.items():
        rows = _rows(received, level, kind)
        details = {file: each.details(kind.TABLES[file]) for file, each in rows.items()}
        found = yield from check_groups(received, level, KINDS[name], rows, details, estimates=True)
        own = counts[name].take(np.flatnonzero(find_groups(both, counts[name].group) >= 0))
        if found is None or not (np.array_equal(found.group, both) and np.array_equal(found.detail, own.detail)):
            faults.append(f"{name}: the groups, or details, are not those of counts in both tables")
        else:
            starts = np.cumsum(found.widths) - found.widths
            totals.append(np.add.reduceat(found.cells, starts) if len(both) else found.cells)
    if len(totals) == len(ESTIMATED) and received.configuration.allow_negative_counts:
        wrong = int((totals[0] != totals[1]).sum())
        faults += [f"{wrong:,} groups have different totals in the two tables"] * bool(wrong)
    yield Check(f"estimates of {level}", f"{len(both):,} groups", tuple(faults))
