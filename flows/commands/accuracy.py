"""`das accuracy`: measure the errors of a configuration by repeated runs on synthetic data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import ExactOptions
from flows.commands.safetab import measured
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.reports.formats import Format, report
from flows.reports.terminal import err
from tasks.lifecycle.new_folder import check_empty


@with_options
def accuracy(
    chosen: Annotated[Chosen, Settings(DetailedDhcaSettings, ("params", "data", "coterminous", "estimates"))],
    place: Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go, as OUT/us and OUT/pr.")],
    runs: Annotated[int, typer.Option(min=1, help="Independent runs, each with a secret of its own.")] = 10,
    *,
    options: ExactOptions,
) -> None:
    """Repeat a run on synthetic data and report its errors against the truth. NOT PRIVATE.

    By summary level, iteration level, size of the group and workload: the 95% quantile of the error and the stated
    margin, coverage, bias, the share of each workload and of suppressed groups; as CSV, in the Bureau's own layout and
    as a page with charts. With --estimates, what these buy: the same figures side by side, and one picture,
    estimates.svg. Data that is not marked synthetic is refused, whoever asks.

    **Example:** `das accuracy params/ data/ accuracy/ --runs 20`
    """
    import shutil

    from flows.execution.repetitions import measure_accuracy
    from tasks.detailed_dhca.accuracy.report import STATEMENT, make_report
    from tasks.detailed_dhca.accuracy.write import PAGE, write_report
    from tasks.detailed_dhca.report import names_of_states
    from tasks.inputs.names import title_of_states
    from tasks.lifecycle.files import atomic_path

    check_empty(place)
    about, reports = {"Parameters": chosen["params"], "Data": chosen["data"]}, {}
    for settings, found in measured(
        DetailedDhcaSettings,
        chosen | {"out": str(place), "spine": False},
        options,
        lambda settings, workers: measure_accuracy(settings, workers, settings.directory / "report", runs),
    ):
        run, jurisdiction = settings.directory, settings.jurisdiction
        reports[jurisdiction] = make_report(found)
        where = title_of_states(names_of_states(run, jurisdiction))
        write_report(run / "report", reports[jurisdiction], about, where)
        with atomic_path(place / jurisdiction) as temporary:
            shutil.move(run / "report", temporary)
    err.print(STATEMENT, style="bold red")
    facts = [
        {
            "region": jurisdiction,
            "runs": runs,
            "report": place / jurisdiction,
            "levels": made.summary(),
            **({"estimates": made.gains().to_dict("records")} if chosen["estimates"] else {}),
        }
        for jurisdiction, made in reports.items()
    ]
    tables = [
        replace(table, title=f"{jurisdiction.upper()}, {runs} runs: {table.title}. {place / jurisdiction / PAGE}")
        for jurisdiction, made in reports.items()
        for table in made.tables()
    ]
    report({"NOT_PRIVATE": STATEMENT, "regions": facts}, tables, Format.table, as_json=options.as_json)
