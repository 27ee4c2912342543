"""Coterminous: Algorithm 4 for counts and, where a run makes them, estimates; the final tables of every level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spine.settings import Jurisdiction
from tasks.detailed_dhca.published import EstimatedGroups, PublishedGroups
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import ITERATION_LEVELS, Level
from tasks.lifecycle.files import unless_done
from tasks.lifecycle.workers import Workers
from tasks.population_groups import coterminous
from tasks.population_groups.coterminous_sets import save_sets
from tasks.population_groups.domain import load_domain


def equate_coterminous(
    run: DetailedRun,
    workers: Workers,
    jurisdiction: Jurisdiction,
    *,
    enabled: bool,
    listed: str | None,
    estimates: bool = False,
) -> None:
    """Overwrite, in each set of coterminous groups, all but the donor; write the final tables of every level."""
    unless_done(run.coterminous_path, lambda: save_sets(run, jurisdiction, enabled=enabled, listed=listed))
    kinds = (False, True) if estimates else (False,)
    halves = [(jurisdiction, iteration_level, kind) for iteration_level in ITERATION_LEVELS for kind in kinds]
    workers.map("coterminous", run, equate, halves)


def equate(run: DetailedRun, jurisdiction: Jurisdiction, iteration_level: int, estimates: bool = False) -> None:
    """Write the final tables of the levels of one iteration level.

    Estimates are equated as counts are: of the same groups, so with the same donors. A set has its donor's estimate,
    margin and fate in the ancestor test.
    """
    levels = run.parameters.configuration.levels(jurisdiction)
    half = [level for level in levels if level.iteration_level == iteration_level]
    if estimates:
        coterminous.equate(run, half, EstimatedGroups, run.estimates_folder, run.final_estimates_folder)
    else:
        coterminous.equate(run, half, PublishedGroups, run.published_folder, run.final_folder)


def final_folders(run: DetailedRun, level: Level, estimates: bool = False) -> list[Path]:
    """Return the folders of the final tables of a level, or of its estimates, in the order of their groups."""
    folder = run.final_estimates_folder if estimates else run.final_folder
    return [folder(level, first) for first, _ in load_domain(run, level).pieces()]


def load_final(run: DetailedRun, level: Level) -> Iterator[PublishedGroups]:
    """Return the final tables of a level, a piece of its groups at a time."""
    return (PublishedGroups.load([folder]) for folder in final_folders(run, level))


def load_final_estimates(run: DetailedRun, level: Level) -> Iterator[EstimatedGroups]:
    """Return the estimates of a level, those that are dropped too, a piece of its groups at a time."""
    return (EstimatedGroups.load([folder]) for folder in final_folders(run, level, estimates=True))
