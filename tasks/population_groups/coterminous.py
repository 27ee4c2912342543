"""Algorithm 4 (paper 5.3.3): in each set of coterminous regions, all groups of an iteration get the same numbers.

A recipient takes the donor's table as it is, with its detail; an estimate comes with its margin and its fate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from spine.settings import Jurisdiction
from tasks.inputs.grf_c import NOWHERE
from tasks.lifecycle.files import save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.population_groups.domain import load_domain
from tasks.population_groups.group_tables import GroupTables, final_folders
from tasks.population_groups.levels import ITERATION_LEVELS, Level
from tasks.population_groups.run import SafeTabRun


def equate_coterminous(
    run: SafeTabRun, workers: Workers, jurisdiction: Jurisdiction, kinds: Sequence[type[GroupTables]]
) -> None:
    """Overwrite, in each set of coterminous groups, all but the donor; write the final tables of every level."""
    halves = [(jurisdiction, iteration_level, kind) for iteration_level in ITERATION_LEVELS for kind in kinds]
    workers.map("coterminous", run, equate, halves)


def equate(run: SafeTabRun, jurisdiction: Jurisdiction, iteration_level: int, kind: type[GroupTables]) -> None:
    """Write the final tables, of one kind, of the levels of one iteration level that have them.

    They are in the order R: the donor is the first that published the group.
    """
    configuration = run.parameters.configuration
    levels = [
        level
        for level in configuration.levels(jurisdiction)
        if level.iteration_level == iteration_level and configuration.budgets[kind.BUDGET][level] != 0
    ]
    if all(folder.exists() for level in levels for folder in final_folders(run, level, kind)):
        return
    pieces = {level: load_domain(run, level).pieces() for level in levels}
    made = {level: [run.noisy_folder(level, kind.MADE, first) for first, _ in pieces[level]] for level in levels}
    sides = [_read_side(run, level, kind, made[level]) for level in levels]
    recipients = _recipients(sides)
    for place, side in enumerate(sides):
        given = _given(sides, recipients[recipients["place"] == place], side.codes)
        for source, (first, last) in zip(made[side.level], pieces[side.level], strict=True):
            inside = np.arange(*np.searchsorted(given.group, np.array([first, last]) * len(side.codes)))
            folder = run.noisy_folder(side.level, kind.FINAL, first)
            unless_done(folder, partial(_write_final, source, folder, given.take(inside)))


@dataclass(frozen=True)
class _Side:
    """A level while coterminous groups are equated.

    codes: of its iterations. set_of: the set of each of its regions. tables: of its published groups in coterminous
    regions, a small part of all.
    """

    level: Level
    codes: NDArray[np.str_]
    set_of: NDArray[np.int64]
    tables: GroupTables

    def records(self, place: int) -> pd.DataFrame:
        """Return the published groups of coterminous regions: set, code, place of the level, row."""
        region, position = np.divmod(self.tables.group, len(self.codes))
        row = np.arange(len(region))
        return pd.DataFrame({"set": self.set_of[region], "code": self.codes[position], "donor": place, "row": row})

    def members(self, place: int) -> pd.DataFrame:
        """Return the coterminous regions: set, place of the level, region."""
        regions = np.flatnonzero(self.set_of != NOWHERE)
        return pd.DataFrame({"set": self.set_of[regions], "place": place, "region": regions})


def _read_side(run: SafeTabRun, level: Level, kind: type[GroupTables], folders: Sequence[Path]) -> _Side:
    domain = load_domain(run, level)
    nowhere = np.full(len(domain.region_ids), NOWHERE, np.int64)
    set_of = run.coterminous_sets.get(level.region_type, nowhere)
    parts = [kind.load([])]
    for folder in folders if (set_of != NOWHERE).any() else ():
        piece = kind.load([folder])
        region = piece.group // len(domain.iterations)
        parts.append(piece.take(np.flatnonzero(set_of[region] != NOWHERE)))
    return _Side(level, np.array(domain.iteration_codes, str), set_of, kind.join(parts))


def _recipients(sides: Sequence[_Side]) -> pd.DataFrame:
    """Return the groups that take another's tables: those of the first level, in the order R, with their iteration."""
    records = pd.concat([side.records(place) for place, side in enumerate(sides)])
    donors = records.drop_duplicates(["set", "code"])  # the levels are in the order R
    members = pd.concat([side.members(place) for place, side in enumerate(sides)])
    recipients = donors.merge(members, on="set")
    return recipients[recipients["donor"] != recipients["place"]]


def _given(sides: Sequence[_Side], recipients: pd.DataFrame, codes: NDArray[np.str_]) -> GroupTables:
    """Return the tables that the recipients of one level, whose iterations have these codes, get; sorted by group."""
    kind = type(sides[0].tables)
    parts = [kind.load([])]
    recipients = recipients[recipients["code"].isin(codes)]  # a group enters no domain that it is not in
    for donor, side in enumerate(sides):
        mine = recipients[recipients["donor"] == donor]
        group = mine["region"].to_numpy() * len(codes) + np.searchsorted(codes, mine["code"].to_numpy(str))
        parts.append(replace(side.tables.take(mine["row"].to_numpy()), group=group))
    joined = kind.join(parts)
    return joined.take(np.argsort(joined.group, kind="stable"))


def _write_final(source: Path, final: Path, given: GroupTables) -> None:
    """Write a piece of a level with the given tables in place of its own."""
    published = type(given).load([source])
    if not len(given.group):
        save_arrays(final, published.arrays())
        return
    kept = published.take(np.flatnonzero(~np.isin(published.group, given.group)))
    joined = type(given).join([kept, given])
    save_arrays(final, joined.take(np.argsort(joined.group, kind="stable")).arrays())
