"""`das truth`: the release that a run would give with its noise switched off. Not private."""

from __future__ import annotations

from pathlib import Path

from tasks.budget_check import Charging
from tasks.commit import check_out, commit
from tasks.configuration import Region
from tasks.coterminous import equate_coterminous
from tasks.errors import Refused
from tasks.noise import AUTHORIZATION, SECRET, TRUTH
from tasks.population_groups import count_population_groups
from tasks.release import stage_release
from tasks.run_directory import RunDirectory
from tasks.sex_by_age import measure_sex_by_age
from tasks.suppression import suppress
from tasks.totals import measure_totals
from tasks.validation import load_parameters, validate
from tasks.workers import Workers


def release_truth(
    run: RunDirectory,
    workers: Workers,
    params: str,
    data: str,
    out: Path,
    region: Region,
    *,
    coterminous: bool = False,
    curator: bool = False,
) -> Path | None:
    """Release exact counts, marked NOT PRIVATE, to OUT/us or OUT/pr; None where the region has no block.

    Raises
    ------
    Refused
        where the data is not marked synthetic and nobody says to be its curator.
    """
    check_out(run, out, region)
    if (run / SECRET).exists() or (run / AUTHORIZATION).exists():
        raise Refused(f"run {run.id} may draw noise: its directory is not one for a truth")
    (run / TRUTH).touch()
    validated = validate(run, workers, params, data, region)
    if validated is None:
        return None
    if not (validated.synthetic or curator):
        raise Refused("the data is not marked synthetic: exact counts of it are for its curator (--i-am-the-curator)")
    count_population_groups(run, workers, region)
    for level in load_parameters(run).configuration.levels(region):
        measure_totals(run, workers, level)
        measure_sex_by_age(run, workers, level)
        suppress(run, workers, level)
    equate_coterminous(run, workers, region, enabled=coterminous, listed=None)
    options = {"region": region, "coterminous": coterminous}
    stage_release(run, workers, region, out, options, "das truth builds no spine")
    return commit(run, out, region, Charging(None, Path()), charged=False)
