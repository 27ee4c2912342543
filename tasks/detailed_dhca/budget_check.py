"""Stage 3, the budget check: one reservation for all levels, and with it the run's secret. It gates every noise stage.

The secret and the ledger's row are made in one act. A run that has a row goes on only with that row's secret, inputs,
configuration and noise scheme; anything else is a new run and a new spend (docs/privacy.md#a-draw-is-seen-once).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from privacy.accounting.composition import Spend, spend
from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable, Request, Row
from privacy.noise.randomness import NOISE_SCHEME_VERSION, RunSecret
from tasks.detailed_dhca.noise import AUTHORIZATION, SECRET, Authorization, is_truth
from tasks.detailed_dhca.validation import (
    Parameters,
    Validated,
    configuration_digest,
    load_parameters,
    missing_data,
    read_data_mark,
    read_parameters,
)
from tasks.inputs.configuration import Configuration, Region
from tasks.lifecycle.errors import Failed, Refused
from tasks.lifecycle.run_directory import RunDirectory, fsync_up, load_public, save_public


@dataclass(frozen=True)
class Charging:
    """Where a run's spend is charged. Public: a name and a path; None for synthetic data, which is exempt."""

    account: str | None
    ledger: Path


def region_spend(configuration: Configuration, region: Region) -> Spend:
    """What a run over a region spends. Raises Refused where a budget is infinite: that is for `das truth` only."""
    levels = configuration.levels(region)
    try:
        budgets = [configuration.budget(level) for level in levels]
    except ValueError as error:
        raise Refused(str(error)) from None
    if not budgets:
        raise Refused(
            f"no population group level of {region.upper()} has a budget above 0: there is nothing to release"
        )
    return spend(configuration.privacy_defn, budgets)


def foresee_budget(run: RunDirectory, params: str, data: str, region: Region, charging: Charging) -> None:
    """Refuse at once what the budget check would refuse later: an account that is missing or would be passed.

    Charges nothing. Marked data needs no account, nor does a region that is switched off; a run that has its row is
    past this; faulty parameters and missing data are told by validation.

    Raises
    ------
    Refused, Failed
        as `check_budget` does.
    """
    parameters, _ = read_parameters(params)
    if parameters is None or region not in parameters.configuration.regions:
        return
    if read_data_mark(data) is not None or missing_data(data):
        return
    request = _request(run, region, charging, parameters, input_digest="", configuration="")
    _check_named(request)
    ledger = Ledger(charging.ledger)
    try:
        if ledger.row(run.id) is None:
            ledger.check(request)
    except LedgerUnusable as error:
        raise Failed(f"budget check: {error}") from None
    except LedgerError as error:
        raise Refused(str(error)) from None


def _request(
    run: RunDirectory, region: Region, charging: Charging, parameters: Parameters, input_digest: str, configuration: str
) -> Request:
    """What a run asks of the ledger."""
    total = region_spend(parameters.configuration, region)
    return Request(
        run=run.id,
        account=charging.account or "",
        states=parameters.configuration.states(region),
        definition=total.definition,
        amount=total.unbounded,
        input_digest=input_digest,
        configuration_digest=configuration,
        noise_scheme=NOISE_SCHEME_VERSION,
    )


def check_budget(run: RunDirectory, region: Region, charging: Charging, options: dict[str, object]) -> Spend | None:
    """Reserve the run's whole spend and make its secret; returns the spend, None for `das truth`, which draws nothing.

    Called again for a run that has its reservation, it changes nothing and checks everything.

    Raises
    ------
    Refused
        no account or one that would be passed; a budget that is infinite; a run whose row stands under other inputs,
        configuration or noise scheme, whose secret is gone, or that was abandoned.
    Failed
        where the ledger's file cannot be read or written now.
    """
    if is_truth(run):
        return None
    parameters = load_parameters(run)
    validated: Validated = load_public(run / "public/validated")
    configuration = configuration_digest(parameters.digests, options)
    request = _request(run, region, charging, parameters, validated.input_digest, configuration)
    authorize(run, charging, request, synthetic=validated.synthetic)
    return region_spend(parameters.configuration, region)


def authorize(run: RunDirectory, charging: Charging, request: Request, *, synthetic: bool) -> None:
    """Charge a request and make the run's secret, or find both as they are; synthetic data is charged nothing.

    Raises
    ------
    Refused, Failed
        as `check_budget` says.
    """
    ledger = Ledger(charging.ledger)
    secret_digest = _synthetic_secret(run, ledger, request) if synthetic else _reserve(run, ledger, request)
    authorization = Authorization(request.input_digest, request.configuration_digest, secret_digest)
    save_public(run / AUTHORIZATION, authorization, durable=True)


def _check_named(request: Request) -> None:
    if not request.account:
        raise Refused("no account was named: das run … --account NAME (das ledger open NAME opens one)")


def _reserve(run: RunDirectory, ledger: Ledger, request: Request) -> str:
    _check_named(request)
    try:
        row = ledger.row(request.run)
        if row is None and (run / AUTHORIZATION).exists():
            raise Refused(
                f"run {run.id} was authorized by a ledger that held its row, and {ledger.path} does not: "
                "its noise may have been drawn; a new run is a new spend"
            )
        if row is None:
            row = ledger.reserve(request, lambda: _make_secret(run))
    except LedgerUnusable as error:
        raise Failed(f"budget check: {error}") from None
    except LedgerError as error:
        raise Refused(str(error)) from None
    check_row(run, row, request)
    return row.secret_digest


def check_row(run: RunDirectory, row: Row, request: Request) -> None:
    """Refuse a run that is not the one its row was reserved for."""
    if row.state == "abandoned":
        raise Refused(f"run {run.id} was abandoned; a new run is a new spend")
    differs = [
        name
        for name in ("account", "input_digest", "configuration_digest", "noise_scheme")
        if getattr(row, name) != getattr(request, name)
    ]
    if differs:
        changed = ", ".join(name.replace("_digest", "").replace("_", " ") for name in differs)
        raise Refused(f"run {run.id} was reserved with another {changed}; a new run is a new spend")
    if read_secret_digest(run) != row.secret_digest:
        raise Refused(
            f"the secret of run {run.id} is gone, so its noise cannot be drawn again; a new run is a new spend"
        )


def read_secret_digest(run: RunDirectory) -> str | None:
    """The digest of the secret that lies in the run directory, None where there is none."""
    try:
        return RunSecret((run / SECRET).read_bytes()).digest()
    except (FileNotFoundError, ValueError):
        return None


def _make_secret(run: RunDirectory) -> str:
    """Write a fresh secret, 0600 and on disk for good. One that lies there without a row has authorized nothing."""
    secret = RunSecret.generate()
    path = run / SECRET
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(handle, secret.expose())
        os.fsync(handle)
    finally:
        os.close(handle)
    fsync_up(run.path)
    return secret.digest()


def _synthetic_secret(run: RunDirectory, ledger: Ledger, request: Request) -> str:
    """The secret of a run on synthetic data: the one that a prepared directory holds, or a fresh one.

    Nobody's privacy hangs on it, yet a run id stays bound to its inputs as everywhere. Data that a ledger has charged
    for is not synthetic, whatever its mark says.
    """
    try:
        charged = ledger.path.is_file() and ledger.knows(request.input_digest)
    except LedgerUnusable as error:
        raise Failed(f"budget check: {error}") from None
    if charged:
        raise Refused("this data was charged for as confidential before; its mark of synthetic data is wrong")
    if (run / AUTHORIZATION).exists():
        earlier: Authorization = load_public(run / AUTHORIZATION)
        bound = (earlier.input_digest, earlier.configuration_digest)
        if bound != (request.input_digest, request.configuration_digest):
            raise Refused(f"run {run.id} began with other inputs or another configuration; start a new run")
        if read_secret_digest(run) != earlier.secret_digest:
            raise Refused(f"the secret of run {run.id} is gone; start a new run")
    return read_secret_digest(run) or _make_secret(run)
