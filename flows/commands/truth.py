"""`das truth`: exact tables, for synthetic data or a curator's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.inputs import checked_parameters
from flows.commands.options import OUT, Curator, Data, ExactOptions, Params, check_empty, with_options
from flows.reports.terminal import err, labelled, show


@with_options
def truth(
    params: Params,
    data: Data,
    release: Annotated[Path, OUT],
    curator: Curator = False,
    coterminous: Annotated[bool, typer.Option(help="Equate coterminous geographies.")] = False,
    *,
    options: ExactOptions,
) -> None:
    """Write the release that a run would give with its noise switched off. NOT PRIVATE: only its owner may read it.

    If the command is killed, `das runs discard ID` removes what it had written.

    **Example:** `das truth params/ data/ truth/`
    """
    from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
    from flows.execution.settings import new_run_id
    from flows.execution.truth import release_truth

    parameters = checked_parameters(params, data, as_json=options.as_json)
    check_empty(release)
    base, made = new_run_id("truth"), {}
    for jurisdiction in parameters.configuration.jurisdictions:
        settings = DetailedDhcaSettings.new(
            **options.settings(f"{base}-{jurisdiction}"),
            params=params,
            data=data,
            out=str(release),
            jurisdiction=jurisdiction,
            coterminous=coterminous,
            spine=False,
        )
        with options.leaving_nothing(settings.directory, f"Truth of {jurisdiction.upper()}") as workers:
            made[jurisdiction] = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show(
        {"NOT_PRIVATE": True, "releases": made},
        lambda: "\n".join(f"{name.upper()}: {place or 'skipped, no block'}" for name, place in made.items()),
        as_json=options.as_json,
    )
