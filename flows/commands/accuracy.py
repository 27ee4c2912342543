"""`das accuracy`, `das sdhc accuracy` and that of any other system: errors of a configuration, by repeated noise."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from flows.commands.fields import Settings, Values
from flows.commands.options import ExactOptions
from flows.commands.runner import planned_run
from flows.execution.s_dhc_settings import SDhcSettings
from flows.execution.safetab_settings import DetailedDhcaSettings
from flows.execution.settings import RunSettings
from flows.execution.systems import SYSTEMS
from flows.reports.terminal import Format, FormatOption, err, report
from tasks.lifecycle.new_folder import new_folder
from tasks.lifecycle.workers import Workers
from tasks.releases.pages.text_table import TextTable

if TYPE_CHECKING:
    from pandas import DataFrame


S = TypeVar("S", bound=RunSettings)
M = TypeVar("M")
Place = Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go, as OUT/us and OUT/pr.")]
Runs = Annotated[int, typer.Option(min=1, help="Independent runs, each with a secret of its own.")]
DHCA = SYSTEMS["detailed-dhca"]
STATEMENT = "NOT PRIVATE: errors against the exact counts of synthetic data. Never publish them."


def _measured(
    options: ExactOptions, kind: type[S], chosen: Values, measure: Callable[[S, Workers], M | None]
) -> Iterator[tuple[S, M]]:
    """Yield the result of `measure` for each part of a run, while its run directory exists."""
    for settings in planned_run(options, kind, kind.new_id("accuracy"), chosen).parts:
        name = settings.folder.upper()
        with options.leaving_nothing(f"Accuracy of {name}", settings.directory) as workers:
            if (found := measure(settings, workers)) is not None:
                yield settings, found
            else:
                err.print(f"{name} has no block in GRF-C: skipped", style="yellow")


def accuracy(
    chosen: Annotated[Values, Settings(DetailedDhcaSettings, (*DHCA.inputs, *DHCA.exact, "estimates"))],
    place: Place,
    runs: Runs = 10,
    *,
    options: ExactOptions,
) -> None:
    """Repeat a run on synthetic data and report its errors against the truth. NOT PRIVATE.

    By summary level, iteration level, size of the group and workload: the 95% quantile of the error and the stated
    margin, coverage, bias, the share of each workload and of suppressed groups; as CSV and as a page with a chart.
    With --estimates, what these buy: the same figures side by side. Data that is not marked synthetic or public is
    refused, whoever asks.

    **Example:** `das accuracy params/ data/ accuracy/ --runs 20`
    """
    from flows.execution.repetitions import measure_accuracy
    from tasks.geography.names import title_of_states
    from tasks.safetab.manifest import names_of_states
    from tasks.safetab.persons.accuracy.report import PAGE, make_report, write_report

    about, facts, tables = {"Parameters": chosen["params"], "Data": chosen["data"]}, [], list[TextTable]()
    values = chosen | {"out": str(place), "spine": False}
    with new_folder(place, 0o700) as folder:
        for settings, found in _measured(options, DetailedDhcaSettings, values, partial(measure_accuracy, runs=runs)):
            run, jurisdiction, made = settings.directory, settings.jurisdiction, make_report(found)
            own = place / jurisdiction
            write_report(run / "report", made, about, title_of_states(names_of_states(run, jurisdiction)))
            shutil.move(run / "report", folder / jurisdiction)
            gains = {"estimates": made.gains().to_dict("records")} if chosen["estimates"] else {}
            facts.append({"region": jurisdiction, "runs": runs, "report": own, "levels": made.summary(), **gains})
            title = f"{jurisdiction.upper()}, {runs} runs"
            tables += [replace(table, title=f"{title}: {table.title}. {own / PAGE}") for table in made.tables()]
    err.print(STATEMENT, style="bold red")
    report({"NOT_PRIVATE": STATEMENT, "regions": facts}, tables)


def report_errors(options: ExactOptions, kind: type[RunSettings], chosen: Values, place: Path, runs: int) -> None:
    """Repeat runs, write the errors of the tables of each part to OUT/PART/errors.csv, and show them."""
    from flows.execution.repetitions import measure_errors
    from tasks.releases.errors import figures

    facts, tables = [], []
    measure = partial(measure_errors, runs=runs)
    with new_folder(place, 0o700) as folder:
        for settings, errors in _measured(options, kind, chosen | {"out": str(place)}, measure):
            name, own = settings.folder, place / settings.folder
            (folder / name).mkdir()
            figures(errors).to_csv(folder / name / "errors.csv", sep="|", index=False)
            tables.append(_by_table(errors, f"{name.upper()}, {runs} runs: errors; by cell in {own}/errors.csv"))
            facts.append({"region": name, "runs": runs, "report": own, "errors": _rows(errors)})
    err.print(STATEMENT, style="bold red")
    report({"NOT_PRIVATE": STATEMENT, "regions": facts}, tables)


def accuracy_s_dhc(
    chosen: Annotated[Values, Settings(SDhcSettings, SYSTEMS["s-dhc"].inputs)],
    runs: Annotated[int, typer.Option(min=1, help="Independent measurements.")] = 10,
    averages: Annotated[bool, typer.Option("--averages", help="Also the intervals of averages: takes longer.")] = False,
    form: FormatOption = Format.table,
    *,
    options: ExactOptions,
) -> None:
    """Repeat the noise of a run on synthetic data; report its errors against the truth. NOT PRIVATE.

    By table, of counts as measured and of least-squares estimates: bias, root mean square and 90% quantile of the
    error, the stated margin at 95% and how often it held; with --json also by type of region, iteration and cell. Data
    that is not marked synthetic or public is refused, whoever asks.

    **Example:** `das sdhc accuracy config.json data/ --runs 20`
    """
    from flows.execution.repetitions import count_marked
    from tasks.s_dhc.accuracy import measure_errors

    settings = planned_run(options, SDhcSettings, SDhcSettings.new_id("accuracy"), chosen | {"out": "."})
    settings.plan().configuration.spend()  # refuse infinite budgets
    with options.leaving_nothing("Accuracy", settings.directory) as workers:
        count_marked(settings, workers)
        errors = measure_errors(settings.directory, runs, averages=averages)
    err.print(STATEMENT, style="bold red")
    data = {"NOT_PRIVATE": STATEMENT, "runs": runs, "errors": _rows(errors)}
    report(data, [_by_table(errors, f"Errors, {runs} runs")], form)


def _rows(errors: DataFrame) -> list[dict[Any, Any]]:
    """Return the errors of each kind of row, for JSON."""
    from tasks.releases.errors import figures

    return figures(errors).rename(columns=str.lower).to_dict("records")


def _by_table(errors: DataFrame, title: str) -> TextTable:
    """Return the errors of each table, of all its rows together."""
    from tasks.releases.errors import figures

    found = figures(errors, ["TABLE", "OF"])
    rows = [[f"{each:,.4g}" if isinstance(each, float) else str(each) for each in row] for row in found.values.tolist()]
    return TextTable(title, [*found.rename(columns=str.lower)], rows, words=2)
