"""`das truth`: the release that a run would give with its noise switched off. Not private."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tasks.detailed_dhca.budget_check import Charging
from tasks.detailed_dhca.coterminous import equate_coterminous
from tasks.detailed_dhca.noise import AUTHORIZATION, SECRET, TRUTH
from tasks.detailed_dhca.population_groups import count_population_groups
from tasks.detailed_dhca.release import stage_release
from tasks.detailed_dhca.sex_by_age import measure_sex_by_age
from tasks.detailed_dhca.suppression import suppress
from tasks.detailed_dhca.totals import measure_totals
from tasks.detailed_dhca.validation import load_parameters, validate
from tasks.inputs.configuration import Region
from tasks.lifecycle.commit import check_out, clear_staging, commit
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.run_directory import RunDirectory, whole
from tasks.lifecycle.workers import Workers


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

    The release is open to its owner only, as is OUT where it is made here.

    Raises
    ------
    Refused
        where the data is not marked synthetic and nobody says to be its curator.
    """
    check_out(run, out, region)
    if (run / SECRET).exists() or (run / AUTHORIZATION).exists():
        raise Refused(f"run {run.id} may draw noise: its directory is not one for a truth")
    with whole(run / TRUTH) as temporary:
        temporary.write_text(json.dumps({"out": str(out), "region": region}))
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
    out.parent.mkdir(parents=True, exist_ok=True)
    out.mkdir(mode=0o700, exist_ok=True)
    options = {"region": region, "coterminous": coterminous}
    stage_release(run, workers, region, out, options, "das truth builds no spine")
    return commit(run, out, region, Charging(None, Path()), charged=False)


def end_truth(run: RunDirectory) -> None:
    """Remove a truth's confidential directory and what it staged in OUT: exact counts stay where they were asked for.

    Does nothing to a directory that is none of a truth's but remove it.
    """
    if (run / TRUTH).exists():
        noted = json.loads((run / TRUTH).read_text() or "{}")
        if noted:
            clear_staging(run, Path(noted["out"]), noted["region"])
    shutil.rmtree(run.path, ignore_errors=True)
