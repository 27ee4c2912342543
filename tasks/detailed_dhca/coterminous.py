"""Coterminous: Algorithm 4 for counts and, where a run makes them, estimates; the final tables of every level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from spine.settings import Jurisdiction
from tasks.detailed_dhca.published import EstimatedGroups, PublishedGroups
from tasks.detailed_dhca.run import DetailedRun
from tasks.lifecycle.workers import Workers
from tasks.population_groups import coterminous
from tasks.population_groups.domain import load_domain
from tasks.population_groups.levels import ITERATION_LEVELS, Level

Tables = TypeVar("Tables", bound=PublishedGroups)


def equate_coterminous(
    run: DetailedRun, workers: Workers, jurisdiction: Jurisdiction, *, estimates: bool = False
) -> None:
    """Overwrite, in each set of coterminous groups, all but the donor; write the final tables of every level."""
    kinds = (PublishedGroups, EstimatedGroups) if estimates else (PublishedGroups,)
    halves = [(jurisdiction, iteration_level, kind) for iteration_level in ITERATION_LEVELS for kind in kinds]
    workers.map("coterminous", run, equate, halves)


def equate(
    run: DetailedRun,
    jurisdiction: Jurisdiction,
    iteration_level: int,
    kind: type[PublishedGroups] = PublishedGroups,
) -> None:
    """Write the final tables of the levels of one iteration level.

    Estimates are equated as counts are: of the same groups, so with the same donors. A set has its donor's estimate,
    margin and fate in the ancestor test.
    """
    levels = run.parameters.configuration.levels(jurisdiction)
    coterminous.equate(run, [level for level in levels if level.iteration_level == iteration_level], kind)


def final_folders(run: DetailedRun, level: Level, kind: type[PublishedGroups] = PublishedGroups) -> list[Path]:
    """Return the folders of the final tables of a level, in the order of their groups."""
    return [run.noisy_folder(level, kind.FINAL, first) for first, _ in load_domain(run, level).pieces()]


def load_final(run: DetailedRun, level: Level, kind: type[Tables]) -> Iterator[Tables]:
    """Return the final tables of a level, dropped estimates too, a piece of its groups at a time."""
    return (kind.load([folder]) for folder in final_folders(run, level, kind))
