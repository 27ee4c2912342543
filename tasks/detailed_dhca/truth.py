"""`das truth`: the release that a run would give with its noise switched off. Not private."""

from __future__ import annotations

from pathlib import Path

from spine.settings import Jurisdiction
from tasks.detailed_dhca.coterminous import equate_coterminous
from tasks.detailed_dhca.population_groups import count_population_groups
from tasks.detailed_dhca.release import stage_release
from tasks.detailed_dhca.run import DetailedRun
from tasks.detailed_dhca.sex_by_age import measure_sex_by_age
from tasks.detailed_dhca.suppression import suppress
from tasks.detailed_dhca.totals import measure_totals
from tasks.detailed_dhca.validation import validate
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
    jurisdiction: Jurisdiction,
    *,
    ledger: Path,
    coterminous: bool = False,
    curator: bool = False,
) -> Path | None:
    """Release exact counts, marked NOT PRIVATE, to OUT/us or OUT/pr; None where the jurisdiction has no block.

    The release is open to its owner only, as is OUT where it is made here.

    Raises
    ------
    Refused
        where the data is not marked synthetic and nobody says to be its curator; where the ledger contradicts the mark
        or its absence.
    """
    check_out(run, out, jurisdiction)
    mark_truth(run, out, jurisdiction)
    validated = validate(run, workers, params, data, jurisdiction)
    if validated is None:
        return None
    digests = {"input_digest": validated.input_digest, "records_digest": validated.records_digest}
    if not (register_if_synthetic(run.id, ledger, marked=validated.synthetic, **digests) or curator):
        raise Refused(
            "the data is not marked synthetic: only its curator may see its exact counts (--i-am-the-curator)"
        )
    count_population_groups(run, workers, jurisdiction)
    for level in run.parameters.configuration.levels(jurisdiction):
        measure_totals(run, workers, level)
        measure_sex_by_age(run, workers, level)
        suppress(run, workers, level)
    equate_coterminous(run, workers, jurisdiction, enabled=coterminous, listed=None)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.mkdir(mode=0o700, exist_ok=True)
    options = {"region": jurisdiction, "coterminous": coterminous}
    stage_release(run, workers, jurisdiction, out, options, "das truth builds no spine")
    return commit(run, out, jurisdiction, Charging(None, ledger), charged=False)
