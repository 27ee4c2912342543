"""`das sdhc accuracy`: measure the errors of a configuration by repeated noise on synthetic data."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import ExactOptions
from flows.commands.s_dhc.options import INPUTS, new_settings
from flows.execution.s_dhc_settings import SDhcSettings
from flows.reports.formats import Format, FormatOption, report
from flows.reports.terminal import err
from tasks.pages.text_table import TextTable


@with_options
def accuracy(
    chosen: Annotated[Chosen, Settings(SDhcSettings, INPUTS)],
    runs: Annotated[int, typer.Option(min=1, help="Independent measurements.")] = 10,
    averages: Annotated[bool, typer.Option("--averages", help="Also the intervals of averages: takes longer.")] = False,
    form: FormatOption = Format.table,
    *,
    options: ExactOptions,
) -> None:
    """Repeat the noise of a run on synthetic data; report its errors against the truth. NOT PRIVATE.

    By table, type of region and iteration level: root mean square and 90% quantile of the error, the stated margin at
    95% and how often it held, of counts as measured and of least-squares estimates. Data that is not marked synthetic
    is refused, whoever asks.

    **Example:** `das sdhc accuracy config.json data/ --runs 20`
    """
    from flows.execution.repetitions import count_marked
    from flows.execution.settings import new_run_id
    from tasks.s_dhc.accuracy import STATEMENT, measure_errors

    settings = new_settings(options, new_run_id("sdhc-accuracy"), chosen | {"out": "."})
    settings.plan().configuration.spend()  # refuses infinite budgets
    with options.leaving_nothing(settings.directory, "Accuracy") as workers:
        count_marked(settings, workers)
        errors = measure_errors(settings.directory, runs, averages=averages)
    err.print(STATEMENT, style="bold red")
    rows = [[*key, *(f"{value:,.4g}" for value in row.values())] for key, row in errors.items()]
    head = ["table", "key", "of", "errors", "rms", "90%", "margin", "coverage"]
    data = {
        "NOT_PRIVATE": STATEMENT,
        "runs": runs,
        "errors": [dict(zip(("table", "key", "of"), key, strict=True)) | row for key, row in errors.items()],
    }
    report(data, [TextTable(f"Errors, {runs} runs", head, rows, words=3)], form, as_json=options.as_json)
