"""Checks of a release of the Detailed DHC-A, from its files alone: what it must state, and which groups it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tasks.releases.check import Check, NotChecked
from tasks.releases.statements import PUBLIC_FILE, Line, Unshown
from tasks.safetab.check import (
    Details,
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
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import DETAILS, TABLES, TOTAL, TOTAL_ONLY
from tasks.safetab.persons.manifest import level_facts, statements_of
from tasks.safetab.persons.run import SafeTabPConfiguration
from tasks.safetab.persons.suppression import EstimatedGroups, PublishedGroups, suppression_threshold


def statements(release: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a release besides those that every release makes."""
    received, options = Received(release, manifest, SafeTabPConfiguration), manifest["options"]
    levels = {}
    for level in received.levels:
        rows = {name: read_rows(received, level, PublishedGroups, name) for name in TABLES}
        groups = np.bincount(_details(received, level, rows)["t1"], minlength=len(DETAILS))[: len(DETAILS)].tolist()
        facts = level_facts(received.configuration, received.domains[level], received.queries(level), groups)
        levels[str(level)] = facts | unshown_stability(received)
    made = "estimates are not made again"
    return {
        **safetab_statements(received, **({"spine": False} if "spine" in options else {})),
        "levels": levels,
        **({"estimates": dict.fromkeys(levels, Unshown(dict[str, Any], made))} if received.estimated else {}),
        "statements": statements_of(truth=received.is_truth, estimated=received.estimated),
        "spine": Unshown(Line, PUBLIC_FILE),
    }


def _details(received: Received, level: Level, rows: Mapping[str, ReceivedRows]) -> Details:
    """Return the detail of groups: in T2 by their number of rows, in T1 as in T2, or that of a total."""
    domain, t1, t2 = received.domains[level], rows["t1"], rows["t2"]
    details = {name: each.details(TABLES[name]) for name, each in rows.items()}
    alone = np.where(domain.total_only[t1.group % len(domain.iterations)], TOTAL_ONLY, TOTAL)
    details["t1"] = np.where(t1.width == 1, alone, details["t1"]).astype(np.uint8)
    at = find_groups(t1.group, t2.group)
    details["t1"][at[at >= 0]] = details["t2"][at >= 0]
    return details


def checks(release: Path, manifest: Mapping[str, Any]) -> Iterator[Check | NotChecked]:
    """Check the groups and every row of every level."""
    received = Received(release, manifest, SafeTabPConfiguration)
    yield NotChecked("parquet/t1/*: COUNT", "a total without a table is shown once")
    if any(name.startswith("spine/") for name in manifest["files"]):
        yield NotChecked("spine/*", "the spine is public, and not made again")
    yield from common_checks(received)
    for level in received.levels:
        rows = {name: read_rows(received, level, PublishedGroups, name) for name in TABLES}
        details = _details(received, level, rows)
        yield _check_published(received, level, rows, details)
        groups = yield from check_groups(received, level, PublishedGroups, rows, details)
        if received.estimated and groups is not None:
            yield from _check_estimates(received, level, groups)


def _check_published(received: Received, level: Level, rows: Mapping[str, ReceivedRows], details: Details) -> Check:
    """Check for suppressible totals, and for all groups if a level suppresses nothing; compare totals with their sexes.

    Clipped counts of the sexes sum to a clipped total or more.
    """
    domain, (t1, t2) = received.domains[level], rows.values()
    threshold = suppression_threshold(received.configuration, level, received.queries(level))
    faults, total, count = [], t1.numbers("COUNT"), t2.numbers("COUNT")
    if threshold is None and len(t1.group) != domain.groups:
        faults.append(f"it has {len(t1.group):,} groups, not all {domain.groups:,}")
    if threshold is not None:
        alone = (details["t1"] == TOTAL) & ~received.is_shared(level, t1.group)
        if (least := total[t1.start[alone]].min(initial=threshold + 1)) <= threshold:
            faults.append(f"a total of {least} is published, and totals up to {threshold} are suppressed")
    at = find_groups(t1.group, t2.group)
    if bare := int((at < 0).sum()):
        faults.append(f"{bare:,} groups have cells and no total")
    of = np.flatnonzero(at >= 0)
    at = at[of]
    if domain.total_only[t1.group[at] % len(domain.iterations)].any():
        faults.append("TotalOnly groups have cells")
    sexes = count[t2.start[of]] + count[np.minimum(t2.start[of] + 1, len(count) - 1)]
    if more := int((total[t1.start[at]] > sexes).sum()):
        faults.append(f"{more:,} totals are more than both sexes")
    return Check(f"published groups of {level}", f"{len(t1.group):,} groups", tuple(faults))


def _check_estimates(received: Received, level: Level, groups: GroupTables) -> Iterator[Check]:
    """Check that the published groups have estimates, at their details, except for dropped totals."""
    rows = {name: read_rows(received, level, EstimatedGroups, name) for name in TABLES}
    found = yield from check_groups(
        received, level, PublishedGroups, rows, _details(received, level, rows), estimates=True
    )
    if found is None:
        return
    kept = find_groups(found.group, groups.group) >= 0
    same = np.array_equal(groups.group[kept], found.group) and np.array_equal(groups.detail[kept], found.detail)
    dropped = int((~kept).sum())
    stated = received.manifest["estimates"][str(level)]["groups_dropped"]
    faults = ["the groups, or details, are not those of counts"] * (not same)
    if (groups.detail[~kept] != TOTAL).any():
        faults.append("groups that are never dropped have no estimate")
    faults += [f"{dropped:,} groups have no estimate, not {stated}"] * (dropped != stated)
    yield Check(f"estimated groups of {level}", f"{len(found.group):,} groups", tuple(faults))
