"""Estimates: T3 and T4 of a group count the same households, so pooling them reduces the error, at no loss.

Other measurements of the same households count too: a Regional ethnicity is the sum of its Detailed ones if all of them
have tables, and equated coterminous regions have the same households. Published totals chose the details, so no choice
needs correcting. Estimates are released next to the counts, for the same groups and details, never in their place
(docs/detailed-dhcb.md#estimates).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.two_tables import PooledTable, changes, margin_of_row, spread
from privacy.estimation.weighted_tables import TableInformation, least_variance, margins, pool, whole
from tasks.geography.grf_c import NOWHERE
from tasks.lifecycle.files import save_arrays
from tasks.lifecycle.workers import Workers
from tasks.safetab.domain import equalities, load_domain, map_pieces
from tasks.safetab.group_tables import GroupTables, Margins
from tasks.safetab.households.run import HouseholdRun
from tasks.safetab.households.tables import KINDS, T3, T4, TABLES, HouseholdTypes, TableShell, Tenures
from tasks.safetab.levels import Level
from tasks.safetab.noise import estimate_words, load_queries

Groups = NDArray[np.int64]


@dataclass(frozen=True)
class EstimatedTables(GroupTables):
    """Estimates of a table: `cells` are all of its rows, sums included, and `margins` are theirs."""

    CELLWISE = ("cells", "margins")
    FOLDER, COLUMN = "estimates/", "ESTIMATE"

    margins: NDArray[np.int64]

    def numbers(self, _name: str, detail: int, _margins: Margins) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of a table as `GroupTables`."""
        places = self.places(detail)
        return self.cells[places], self.margins[places]


@dataclass(frozen=True)
class EstimatedTypes(EstimatedTables, HouseholdTypes):
    """Estimates of T3."""

    CELLS = np.array([len(table.rows) for table in T3.published])
    MADE = FINAL = "estimated_t3"


@dataclass(frozen=True)
class EstimatedTenures(EstimatedTables, Tenures):
    """Estimates of T4."""

    CELLS = np.array([len(table.rows) for table in T4.published])
    MADE = FINAL = "estimated_t4"


ESTIMATED: dict[str, type[EstimatedTables]] = {"t3": EstimatedTypes, "t4": EstimatedTenures}


def has_both(run: HouseholdRun, level: Level) -> bool:
    """Return whether a level has both tables, and so estimates."""
    return len(run.parameters.configuration.tables(level)) == len(TABLES)


def estimate(run: HouseholdRun, workers: Workers, level: Level) -> None:
    """Estimate the tables of a level that has both. The tables of all levels must have been measured and equated."""
    map_pieces("estimates", run, workers, level, estimate_tables)


def estimate_tables(run: HouseholdRun, level: Level, first: int, _last: int) -> None:
    """Write the estimates of the groups of a piece that have both tables."""
    folders = {name: run.noisy_folder(level, kind.FINAL, first) for name, kind in ESTIMATED.items()}
    if all(folder.exists() for folder in folders.values()):
        return
    published = {name: kind.load([run.noisy_folder(level, kind.FINAL, first)]) for name, kind in KINDS.items()}
    both = np.intersect1d(published["t3"].group, published["t4"].group, assume_unique=True)
    published = {name: one.take(np.searchsorted(one.group, both)) for name, one in published.items()}
    estimates = {}
    for name, kind in ESTIMATED.items():
        none = np.zeros(kind.CELLS[published[name].detail].sum(), np.int64)
        estimates[name] = kind(**published[name].arrays() | {"cells": none, "margins": none.copy()})
    linked = _linked(run, level, both)
    details = np.stack([one.detail for one in published.values()] + [linked], axis=1)
    for *own, by_weights in np.unique(details, axis=0).tolist():
        mine = np.flatnonzero((details == [*own, by_weights]).all(axis=1))
        noisy = [one.take(mine).cells.reshape(len(mine), -1) for one in published.values()]
        made = _weighted(run, level, both[mine], own) if by_weights else _pooled(run, level, both[mine], own, noisy)
        for (name, table), detail, (cells, margins_of_cells) in zip(TABLES.items(), own, made, strict=True):
            places = estimates[name].places(detail, mine)
            estimates[name].cells[places] = table.published[detail].counts(cells)
            estimates[name].margins[places] = margins_of_cells
    for name, tables in estimates.items():
        if not folders[name].exists():
            save_arrays(folders[name], tables.arrays())


# -- both tables of a group alone -------------------------------------------------------------------------------------


def _pooled(
    run: HouseholdRun, level: Level, groups: Groups, details: list[int], noisy: list[NDArray[np.int64]]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield, for T3 and T4, the estimated cells of these groups and the exact margins of their rows."""
    words = estimate_words(run, level, groups)
    one, other = (
        PooledTable(load_queries(run, level).law(table.name), int(table.widths[detail]))
        for table, detail in zip(TABLES.values(), details, strict=True)
    )
    difference = noisy[0].sum(axis=1) - noisy[1].sum(axis=1)
    change = changes(one, other, difference)
    for column, (own, fitting, moved) in enumerate(((one, other, change), (other, one, difference + change))):
        table = list(TABLES.values())[column]
        turn = (words[:, column] % np.uint64(own.cells)).astype(np.int64)
        margin = [
            margin_of_row(own, fitting, row.cells, follows=table is T4) for row in table.published[details[column]].rows
        ]
        yield noisy[column] + spread(moved, turn, own.cells), np.array(margin)


# -- with all other measurements of the same households ------------------------------------------------------------


def _weighted(
    run: HouseholdRun, level: Level, groups: Groups, details: list[int]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield, for T3 and T4, the cells and margins of groups, by least squares over all their measurements."""
    sources = list(_sources(run, level, groups))
    words = np.zeros((len(groups), 2), np.uint64)
    for donor, members in reversed(sources):  # the set's first level overrides: all round alike
        if donor.iteration_level == level.iteration_level:
            there = np.flatnonzero(members[:, 0] >= 0)
            words[there] = estimate_words(run, donor, members[there, 0])
    uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    tables = run.parameters.configuration.tables
    laws = (load_queries(run, donor).law(table.name) for donor, _ in sources for table in tables(donor))
    least = least_variance(law.variance() for law in laws)
    solved = []
    for table, detail in zip(TABLES.values(), details, strict=True):
        information = TableInformation.none(len(groups), int(table.widths[detail]))
        for donor, members in sources:
            if table in tables(donor):
                _add(run, donor, table, members, detail, information, least)
        solved.append(information.solve())
    for column, (cells, covariance) in enumerate(pool(*solved)):
        published = list(TABLES.values())[column].published[details[column]]
        sums = published.counts(np.eye(cells.shape[1], dtype=np.int64))
        definition = run.parameters.configuration.privacy_defn
        yield whole(cells, uniform[:, column]), margins(covariance, sums, definition)


def _add(
    run: HouseholdRun,
    donor: Level,
    table: TableShell,
    members: Groups,
    detail: int,
    information: TableInformation,
    least: float,
) -> None:
    """Add a level's measurements: for each group the sum of its members' tables, if all members have one.

    The sum has the cells of the coarsest detail among the members' and the group's own, `detail`.
    """
    found, cells = _measured(run, donor, table, members)
    variance = max(load_queries(run, donor).law(table.name).variance(), least)
    coarsest = np.minimum(found.min(axis=1), detail)
    for common in range(detail + 1):
        rows = np.flatnonzero(coarsest == common)
        width = int(table.widths[common])
        summed, draws = np.zeros((len(rows), width)), np.zeros((len(rows), width))
        for fine in range(common, len(table.details)):
            mine, onto = found[rows] == fine, table.onto(fine, common)
            summed += (cells[rows][..., : len(onto)] * mine[..., None]).sum(axis=1) @ onto
            draws += mine.sum(axis=1)[:, None] * onto.sum(axis=0)
        information.add(rows, table.onto(detail, common), summed, variance * draws)


def _measured(
    run: HouseholdRun, level: Level, table: TableShell, groups: Groups
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the details of groups, in any order (-1: without a table), and measured cells, padded to one width."""
    kind, domain = KINDS[table.name], load_domain(run, level)
    detail = np.full(groups.shape, -1)
    cells = np.zeros((*groups.shape, int(table.widths[-1])), np.int64)
    for first, last in domain.pieces():
        inside = np.nonzero((groups >= first * len(domain.iterations)) & (groups < last * len(domain.iterations)))
        if not len(inside[0]):
            continue
        made = kind.load([run.noisy_folder(level, kind.MADE, first)])
        place = np.searchsorted(made.group, groups[inside])
        there = np.flatnonzero(np.append(made.group, -1)[place] == groups[inside])
        taken, at = made.take(place[there]), tuple(axis[there] for axis in inside)
        detail[at] = taken.detail
        for number in np.unique(taken.detail).tolist():
            of_detail = tuple(axis[taken.detail == number][:, None] for axis in at)
            cells[*of_detail, np.arange(table.widths[number])] = taken.cells[taken.places(number)]
    return detail, cells


def _linked(run: HouseholdRun, level: Level, groups: Groups) -> NDArray[np.bool_]:
    """Return whether each group needs least squares: in a coterminous region, or the sum of groups with tables."""
    region = groups // len(load_domain(run, level).iterations)
    sets = run.coterminous_sets.get(level.region_type)
    linked = np.zeros(len(groups), bool) if sets is None else sets[region] != NOWHERE
    for donor, members in _sources(run, level, groups):
        if donor.iteration_level != level.iteration_level:
            for table in run.parameters.configuration.tables(donor):
                linked |= (_measured(run, donor, table, members)[0] >= 0).all(axis=1)
    return linked


def _sources(run: HouseholdRun, level: Level, groups: Groups) -> Iterator[tuple[Level, Groups]]:
    """Yield levels with the groups of their domains that count the same households, groups x members, -1 for none.

    The members are the group itself, the same group in a coterminous region, or all parts of a sum.
    """
    configuration, sets = run.parameters.configuration, run.coterminous_sets
    own = load_domain(run, level)
    region, position = np.divmod(groups, len(own.iterations))
    codes, levels = np.array(own.iteration_codes)[position], configuration.levels(level.jurisdiction)
    number = sets[level.region_type][region] if sets else np.full(len(groups), NOWHERE)
    for donor in (each for each in levels if each.iteration_level == level.iteration_level):
        domain = load_domain(run, donor)
        of_donor = np.full(int(number.max(initial=0)) + 1, -1)
        if sets:
            there = np.flatnonzero((sets[donor.region_type] != NOWHERE) & (sets[donor.region_type] < len(of_donor)))
            of_donor[sets[donor.region_type][there]] = there
        regions = np.where(number == NOWHERE, region if donor == level else -1, of_donor[number])
        yield donor, _members(domain.iteration_codes, codes, regions, {code: [code] for code in set(codes.tolist())})
        parts, below = equalities(run, donor), Level(donor.region_type, 2)
        if parts:
            of_parts = load_domain(run, below).iteration_codes
            for whole_, summands in parts.items():
                code = domain.iteration_codes[whole_]
                yield below, _members(of_parts, codes, regions, {code: [of_parts[part] for part in summands]})


def _members(columns: tuple[str, ...], codes: NDArray[np.str_], regions: Groups, parts: dict[str, list[str]]) -> Groups:
    """Return the numbers of groups of `regions`: those of the parts of each code, -1 for a missing part."""
    place = {code: at for at, code in enumerate(columns)}
    width = max(map(len, parts.values()), default=1)
    numbers = {code: [place.get(part, -1) for part in of_code] for code, of_code in parts.items()}
    position = np.array([numbers.get(code, [-1] * width) for code in codes.tolist()]).reshape(len(codes), width)
    groups: Groups = np.where((position >= 0) & (regions[:, None] >= 0), regions[:, None] * len(columns) + position, -1)
    return groups
