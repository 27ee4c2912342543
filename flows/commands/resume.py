"""What may be said beside `--resume ID`: where the run goes on, and nothing of what it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from flows.execution.cluster import ClusterSettings

TYPED = "COMMANDLINE"  # by name: typer has a copy of click's ParameterSource of its own
CLUSTER = ("workers", "memory_limit", "scheduler", "tls_ca", "tls_cert", "tls_key")
BESIDE = {"resume", "ledger", "state", "as_json", *CLUSTER}


def given(context: typer.Context) -> dict[str, Any]:
    """The arguments and options that a person typed, by their names."""
    source = {name: context.get_parameter_source(name) for name in context.params}
    typed = {name for name, of in source.items() if of is not None and of.name == TYPED}
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


def check_resume(context: typer.Context) -> None:
    """Refuse what `--resume` would not heed: a run goes on as it began."""
    refuse(context, given(context).keys() - BESIDE, "a run that is resumed goes on with what it began with")


def cluster_of_resumed(context: typer.Context, saved: ClusterSettings) -> ClusterSettings:
    """Where a resumed run goes on: where it was, but for what the options change. A lost cluster must not hold it up.

    `--scheduler` names another cluster, `--workers` this machine where the run was elsewhere; all else changes one
    setting of the cluster that it was on.
    """
    from flows.execution.cluster import ClusterSettings

    changes = {name: value for name, value in given(context).items() if name in CLUSTER}
    elsewhere = bool(saved.scheduler or saved.cluster_class)
    if "scheduler" in changes or (elsewhere and "workers" in changes):
        return ClusterSettings(**changes)
    if elsewhere:
        refuse(context, changes.keys() & {"memory_limit"}, "is of workers on this machine; --workers N goes on here")
    return saved.model_copy(update=changes)
