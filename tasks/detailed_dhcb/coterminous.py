"""Coterminous: Algorithm 4 for household type and tenure; the final tables of every level."""

from __future__ import annotations

from spine.settings import Jurisdiction
from tasks.detailed_dhcb.estimates import ESTIMATED, has_both
from tasks.detailed_dhcb.published import KINDS
from tasks.detailed_dhcb.run import HouseholdRun
from tasks.detailed_dhcb.tables import TABLES
from tasks.lifecycle.workers import Workers
from tasks.population_groups import coterminous
from tasks.population_groups.levels import ITERATION_LEVELS


def equate_coterminous(
    run: HouseholdRun, workers: Workers, jurisdiction: Jurisdiction, *, estimates: bool = False
) -> None:
    """Overwrite, in each set of coterminous groups, all but the donor; write the final tables of every level.

    A recipient takes the donor's table as it is, whatever detail its own total chose.
    """
    halves = [
        (jurisdiction, table, iteration_level, of_estimates)
        for table in TABLES
        for iteration_level in ITERATION_LEVELS
        for of_estimates in ((False, True) if estimates else (False,))
    ]
    workers.map("coterminous", run, equate, halves)


def equate(
    run: HouseholdRun, jurisdiction: Jurisdiction, table: str, iteration_level: int, of_estimates: bool = False
) -> None:
    """Write the final tables, or estimates, of the levels of one iteration level that have this table."""
    configuration = run.parameters.configuration
    levels = [
        level
        for level in configuration.levels(jurisdiction)
        if level.iteration_level == iteration_level
        and TABLES[table] in configuration.tables(level)
        and (not of_estimates or has_both(run, level))
    ]
    if levels:
        coterminous.equate(run, levels, ESTIMATED[table] if of_estimates else KINDS[table])
