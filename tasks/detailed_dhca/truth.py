"""`das truth`: the release that a run would give with its noise switched off. Not private."""

from __future__ import annotations

from pathlib import Path

from tasks.detailed_dhca.coterminous import equate_coterminous
from tasks.detailed_dhca.population_groups import count_population_groups
from tasks.detailed_dhca.release import stage_release
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.sex_by_age import measure_sex_by_age
from tasks.detailed_dhca.suppression import suppress
from tasks.detailed_dhca.totals import measure_totals
from tasks.detailed_dhca.validation import validate
from tasks.inputs.configuration import Jurisdiction
from tasks.lifecycle.commit import check_out, commit
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Charging, register_if_synthetic
from tasks.lifecycle.truth import mark_truth
from tasks.lifecycle.workers import Workers


def release_truth(
    run: DetailedRun,
    workers: Workers,
    params: str,
    data: str,
    out: Path,
    region: Jurisdiction,
    *,
    ledger: Path,
    coterminous: bool = False,
    curator: bool = False,
) -> Path | None:
    """Release exact counts, marked NOT PRIVATE, to OUT/us or OUT/pr; None where the region has no block.

    The release is open to its owner only, as is OUT where it is made here.

    Raises
    ------
    Refused
        where the data is not marked synthetic and nobody says to be its curator; where the ledger contradicts the mark
        or its absence.
    """
    check_out(run, out, region)
    mark_truth(run, out, region)
    validated = validate(run, workers, params, data, region)
    if validated is None:
        return None
    digests = {"input_digest": validated.input_digest, "records_digest": validated.records_digest}
    if not (register_if_synthetic(run.id, ledger, marked=validated.synthetic, **digests) or curator):
        raise Refused(
            "the data is not marked synthetic: only its curator may see its exact counts (--i-am-the-curator)"
        )
    count_population_groups(run, workers, region)
    for level in run.parameters.configuration.levels(region):
        measure_totals(run, workers, level)
        measure_sex_by_age(run, workers, level)
        suppress(run, workers, level)
    equate_coterminous(run, workers, region, enabled=coterminous, listed=None)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.mkdir(mode=0o700, exist_ok=True)
    options = {"region": region, "coterminous": coterminous}
    stage_release(run, workers, region, out, options, "das truth builds no spine")
    return commit(run, out, region, Charging(None, ledger), charged=False)
