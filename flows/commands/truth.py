"""`das truth`: exact tables, for synthetic data or a curator's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flows.commands.fields import Chosen, Settings, option_of, with_options
from flows.commands.inputs import checked_parameters, jurisdiction_settings
from flows.commands.options import Curator, ExactOptions
from flows.execution.detailed_dhca_settings import DetailedDhcaSettings
from flows.reports.terminal import err, labelled, show
from tasks.lifecycle.new_folder import check_empty


@with_options
def truth(
    chosen: Annotated[Chosen, Settings(DetailedDhcaSettings, ("params", "data", "out"))],
    curator: Curator = False,
    coterminous: Annotated[bool, option_of(DetailedDhcaSettings, "coterminous")] = False,
    *,
    options: ExactOptions,
) -> None:
    """Write the release that a run would give with its noise switched off. NOT PRIVATE: only its owner may read it.

    If the command is killed, `das runs discard ID` removes what it had written.

    **Example:** `das truth params/ data/ truth/`
    """
    from flows.execution.settings import new_run_id
    from flows.execution.truth import release_truth

    parameters = checked_parameters(chosen["params"], chosen["data"], as_json=options.as_json)
    check_empty(Path(chosen["out"]))
    base, made = new_run_id("truth"), {}
    chosen |= {"coterminous": coterminous, "spine": False}
    for settings in jurisdiction_settings(options, base, parameters.configuration.jurisdictions, chosen):
        with options.leaving_nothing(settings.directory, f"Truth of {settings.jurisdiction.upper()}") as workers:
            made[settings.jurisdiction] = release_truth(settings, workers, curator=curator)
    err.print(labelled("NOT PRIVATE:", "these are exact counts. Never publish them."))
    show(
        {"NOT_PRIVATE": True, "releases": made},
        lambda: "\n".join(f"{name.upper()}: {place or 'skipped, no block'}" for name, place in made.items()),
        as_json=options.as_json,
    )
