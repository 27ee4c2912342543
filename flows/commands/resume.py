"""`--resume ID`: continue a run with its own settings, on the cluster that the options name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import typer

from flows.commands.fields import options_of
from flows.commands.options import RunOptions
from flows.execution.settings import ClusterSettings, RunSettings, load_settings, run_directory
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import out
from privacy.accounting.ledger import Ledger, LedgerError
from tasks.lifecycle.errors import Refused

CLUSTER = [name for name, _, _ in options_of(ClusterSettings)]
TYPED = "COMMANDLINE"  # by name: typer has a copy of click's ParameterSource of its own
ALLOWED = {"resume", "ledger", "state", "as_json", *CLUSTER}


def resumed(context: typer.Context, options: RunOptions, kind: type[RunSettings]) -> RunSettings | None:
    """Return the settings with which a stopped run continues; None, after a message, where it is released.

    kind: of the command's runs.

    Raises Refused where the run has no directory here, or is of another command; typer.BadParameter where an option is
    given that a resumed run would ignore.
    """
    refuse(context, given(context).keys() - ALLOWED, "a resumed run keeps the options that it began with")
    run = run_directory(options.home, str(options.resume))
    settings = load_settings(run)
    if settings is None:
        _say_released(run.id, options)
        return None
    command = settings.system.command
    if command != SYSTEMS[kind.SYSTEM].command:
        raise Refused(f"run {run.id} was started by {command}: resume it with {command} --resume")
    if options.ledger and str(options.ledger.absolute()) != settings.ledger:
        refuse(context, ["ledger"], f"the run is charged in {settings.ledger}")
    return settings.model_copy(update={"cluster": cluster_of_resumed(context, settings.cluster)})


def _say_released(run_id: str, options: RunOptions) -> None:
    """Report that a run without a directory here is released. Raises Refused where its row has another status."""
    try:
        row = Ledger(options.ledger_file).row(run_id)
    except LedgerError:
        row = None
    if row is None or row.status != "released":
        status = f"; the ledger calls it {row.status}" if row else ""
        place = options.home / "runs"
        raise Refused(f"run {run_id} has no confidential directory in {place}{status}: it is over, or never was")
    out.print(f"run {run_id} is released; there is nothing to resume")


def given(context: typer.Context) -> dict[str, Any]:
    """Return the arguments and options that a person typed, by their names."""
    source = {name: context.get_parameter_source(name) for name in context.params}
    typed = {name for name, where in source.items() if where is not None and where.name == TYPED}
    return {name: value for name, value in context.params.items() if name in typed}


def refuse(context: typer.Context, names: Collection[str], why: str) -> None:
    """Raise typer.BadParameter (exit 2) that names the options of `names`, where there are any."""
    called = [
        parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or str(parameter.name).upper()
        for parameter in context.command.params
        if parameter.name in names
    ]
    if called:
        raise typer.BadParameter(f"{', '.join(called)}: {why}", context)


def cluster_of_resumed(context: typer.Context, saved: ClusterSettings) -> ClusterSettings:
    """Return the cluster of a resumed run: the one it had, as changed by the options.

    If a cluster is lost, `--scheduler` names another, and `--workers` continues on this machine. Any other option
    changes one setting of the run's cluster.
    """
    changes = {name: value for name, value in given(context).items() if name in CLUSTER}
    elsewhere = saved.elsewhere
    if "scheduler" in changes or (elsewhere and "workers" in changes):
        return ClusterSettings(**changes)
    if elsewhere:
        refuse(
            context,
            changes.keys() & {"memory_limit"},
            "limits workers on this machine; to continue here, give --workers N",
        )
    return saved.model_copy(update=changes)
