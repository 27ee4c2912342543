"""The budget check: reserve the spend of all levels at once, and with it make the run's secret. It gates all noise."""

from __future__ import annotations

from dataclasses import replace

from privacy.accounting.composition import Spend, spend
from spine.settings import Jurisdiction
from tasks.detailed_dhca.parameters import read_parameters
from tasks.detailed_dhca.person_file import missing_data
from tasks.detailed_dhca.run import DetailedRun
from tasks.inputs.configuration import Configuration
from tasks.inputs.synthetic_mark import read_mark
from tasks.lifecycle.authorization import is_truth
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.reservation import Charging, authorize, precheck, request_of
from tasks.population_groups.parameters import configuration_digest


def planned_spend(configuration: Configuration, jurisdiction: Jurisdiction) -> Spend:
    """Return what a run over a jurisdiction spends. Raises Refused where a budget is infinite."""
    levels = configuration.levels(jurisdiction)
    try:
        budgets = [configuration.budget(level) for level in levels]
    except ValueError as error:
        raise Refused(str(error)) from None
    if not budgets:
        raise Refused(
            f"no population group level of {jurisdiction.upper()} has a budget above 0: there is nothing to release"
        )
    return spend(configuration.privacy_defn, budgets)


def precheck_budget(run: DetailedRun, params: str, data: str, jurisdiction: Jurisdiction, charging: Charging) -> None:
    """Refuse at once what the budget check would refuse later: an account that is missing or has too little left.

    Charges nothing. Marked data needs no account, nor does a jurisdiction that is switched off; a run that has its row
    is past this; validation reports invalid parameters and missing data.

    Raises
    ------
    Refused, Failed
        as `reserve_budget` does.
    """
    parameters, _ = read_parameters(params)
    if parameters is None or jurisdiction not in parameters.configuration.jurisdictions:
        return
    if read_mark(data) is not None or missing_data(data):
        return
    configuration = parameters.configuration
    total = planned_spend(configuration, jurisdiction)
    states = configuration.states(jurisdiction)
    precheck(run, charging, request_of(run, charging, states, total.definition, total.unbounded))


def reserve_budget(
    run: DetailedRun,
    jurisdiction: Jurisdiction,
    charging: Charging,
    options: dict[str, object],
    *,
    entered_as: str | None = None,
) -> Spend | None:
    """Reserve the run's whole spend and make its secret; returns the spend, None for `das truth`, which draws nothing.

    Called again for a run that has its reservation, it changes nothing and checks everything. `entered_as` names the
    run that the ledger knows where this is one of its repetitions, on synthetic data.

    Raises
    ------
    Refused
        no account or too little left in it; a budget that is infinite; a run whose row stands under other inputs,
        configuration or noise scheme, whose secret is gone, or that was abandoned; a mark that the ledger contradicts.
    Failed
        where the ledger's file cannot be read or written now.
    """
    if is_truth(run):
        return None
    parameters, validated = run.parameters, run.validated
    total = planned_spend(parameters.configuration, jurisdiction)
    request = request_of(
        run,
        charging,
        parameters.configuration.states(jurisdiction),
        total.definition,
        total.unbounded,
        configuration_digest=configuration_digest(parameters.digests, options),
        input_digest=validated.input_digest,
        records_digests=validated.records_digests,
    )
    authorize(run, charging, replace(request, run=entered_as or run.id), synthetic=validated.synthetic)
    return total
