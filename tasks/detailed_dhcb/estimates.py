"""Estimates: T3 and T4 of a group count the same households, so both get one total of smaller error, at no loss.

The detail of both was chosen by the published total of the group, so there is no choice to correct for. They are
released beside the counts, never in their place (docs/detailed-dhcb.md#estimates).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privacy.estimation.two_tables import Table, changes, margin_of_row, spread
from tasks.detailed_dhcb.published import KINDS, HouseholdTypes, Tenures
from tasks.detailed_dhcb.run import HouseholdRun
from tasks.detailed_dhcb.tables import T3, T4, TABLES, CountTable
from tasks.lifecycle.files import save_arrays, unless_done
from tasks.lifecycle.workers import Workers
from tasks.population_groups.domain import load_domain
from tasks.population_groups.group_tables import GroupTables
from tasks.population_groups.levels import Level
from tasks.population_groups.noise import estimate_words
from tasks.population_groups.queries import load_queries


@dataclass(frozen=True)
class EstimatedTypes(HouseholdTypes):
    """Estimates of T3; `other` is the detail of the group's T4."""

    MADE, FINAL = "estimated_t3", "final_estimated_t3"

    other: NDArray[np.uint8]


@dataclass(frozen=True)
class EstimatedTenures(Tenures):
    """Estimates of T4; `other` is the detail of the group's T3."""

    MADE, FINAL = "estimated_t4", "final_estimated_t4"

    other: NDArray[np.uint8]


ESTIMATED: dict[str, type[EstimatedTypes] | type[EstimatedTenures]] = {"t3": EstimatedTypes, "t4": EstimatedTenures}
OTHER = {"t3": T4, "t4": T3}


def estimate(run: HouseholdRun, workers: Workers, level: Level) -> None:
    """Estimate the tables of a level that has both."""
    calls = [(level, first) for first, _ in load_domain(run, level).pieces()]
    workers.map(f"estimates ({level.name})", run, estimate_tables, calls)


def estimate_tables(run: HouseholdRun, level: Level, first: int) -> None:
    """Write the estimates of the groups of a piece: the arrays of `EstimatedTypes` and `EstimatedTenures`."""
    folders = {name: run.noisy_folder(level, kind.MADE, first) for name, kind in ESTIMATED.items()}
    if all(folder.exists() for folder in folders.values()):
        return
    noisy = {name: KINDS[name].load([run.noisy_folder(level, KINDS[name].MADE, first)]) for name in ESTIMATED}
    group, details = noisy["t3"].group, {name: table.detail for name, table in noisy.items()}
    words = estimate_words(run, level, group)
    cells = {name: table.cells.copy() for name, table in noisy.items()}
    ends = {name: np.cumsum(table.widths) for name, table in noisy.items()}
    for own, other in np.unique(np.stack([details["t3"], details["t4"]], axis=1), axis=0).tolist():
        rows = np.flatnonzero((details["t3"] == own) & (details["t4"] == other))
        first_table, second = measured(run, level, T3, own), measured(run, level, T4, other)
        places = {
            name: (ends[name] - noisy[name].widths)[rows][:, None] + np.arange(cells_each)
            for name, cells_each in (("t3", first_table.cells), ("t4", second.cells))
        }
        difference = cells["t3"][places["t3"]].sum(axis=1) - cells["t4"][places["t4"]].sum(axis=1)
        change = changes(first_table, second, difference)
        for column, (name, moved, width) in enumerate(
            (("t3", change, first_table.cells), ("t4", difference + change, second.cells))
        ):
            turn = (words[rows, column] % np.uint64(width)).astype(np.int64)
            cells[name][places[name]] += spread(moved, turn, width)
    for name, kind in ESTIMATED.items():
        made = kind(**noisy[name].arrays() | {"cells": cells[name], "other": details[OTHER[name].name]})
        unless_done(folders[name], partial(save_arrays, folders[name], made.arrays()))


def measured(run: HouseholdRun, level: Level, table: CountTable, detail: int) -> Table:
    """Return a table of a level as the estimation has it."""
    return Table(load_queries(run, level).law(table.name), int(table.widths[detail]))


def estimate_margins(run: HouseholdRun, level: Level, table: CountTable, detail: int) -> NDArray[np.int64]:
    """Return the margins of a table's rows by [level whose noise it has, detail of the group's other table, row]."""
    levels, rows, other = run.parameters.configuration.levels(level.jurisdiction), table.rows(detail), OTHER[table.name]
    margins = np.zeros((len(levels), len(other.details), len(rows)), np.int64)
    for place, donor in enumerate(levels):
        if donor.iteration_level == level.iteration_level and has_both(run, donor):
            own = measured(run, donor, table, detail)
            for of_other in range(len(other.details)):
                fitting = measured(run, donor, other, of_other)
                margins[place, of_other] = [
                    margin_of_row(own, fitting, tuple(places.tolist()), follows=table is T4) for places in rows.values()
                ]
    return margins


def has_both(run: HouseholdRun, level: Level) -> bool:
    """Return whether a level has both tables, and so estimates."""
    return len(run.parameters.configuration.tables(level)) == len(TABLES)


def margins_of_part(part: GroupTables, margins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the margins of the rows of estimated tables: groups x rows."""
    found: NDArray[np.int64] = margins[part.noise_of, part.other]  # type: ignore[attr-defined]
    return found
