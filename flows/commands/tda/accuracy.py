"""`das tda accuracy`: the errors of the TopDown Algorithm on synthetic data, spine beside spine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import ExactOptions, check_empty, with_options
from flows.commands.tda.options import ROUND, DataArgument, Estimator, InputOptions, Kind, Rounding
from flows.reports.formats import Format, report
from flows.reports.terminal import err, labelled

if TYPE_CHECKING:
    from pandas import DataFrame


@with_options
def accuracy(
    data: DataArgument,
    place: Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go.")],
    spine: Annotated[
        list[Kind] | None, typer.Option(help="Only this spine; may be repeated.", show_default="all")
    ] = None,
    estimator: Annotated[
        list[Estimator] | None, typer.Option(help="Only this estimator; may be repeated.", show_default="both")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Independent runs on each spine.")] = 3,
    rounding: Annotated[Rounding, ROUND] = "program",
    *,
    inputs: InputOptions,
    options: ExactOptions,
) -> None:
    """Report the errors of counts on synthetic data, by level and kind of area. NOT PRIVATE.

    Total, voting age, Hispanic and race, by level, place, county subdivision and AIAN area. Each spine and
    estimator is shown, both estimators on the same measurements, with the share of counts within their margins of
    error. OUT gets error.csv, coverage.csv, error.html with charts, and board.svg, one picture of it all. NOT
    PRIVATE, and only for data that is marked synthetic: on confidential data each spine would be a measurement and
    a charge of its own.

    **Example:** `das tda accuracy ri/ errors/ --seeds 3`
    """
    from flows.execution.repetitions import count_marked
    from flows.execution.settings import new_run_id
    from flows.execution.top_down_settings import TopDownSettings
    from tasks.top_down.accuracy.errors import averaged, covered, measure_errors
    from tasks.top_down.accuracy.report import write_report
    from tasks.top_down.run_plan import ESTIMATORS, KINDS

    check_empty(place)
    kinds = tuple(dict.fromkeys(kind.value for kind in spine)) if spine else KINDS
    chosen = {name.value for name in estimator} if estimator else set(ESTIMATORS)
    estimators = tuple(name for name in ESTIMATORS if name in chosen)
    base, by_spine = new_run_id("tda-accuracy"), {}
    for kind in kinds:
        own = {"data": data, **vars(inputs), "spine": kind, "rounding": rounding}
        settings = options.new_settings(TopDownSettings, f"{base}-{kind}", place, **own)
        run = settings.directory
        with options.leaving_nothing(run, f"{kind} spine") as workers:
            count_marked(settings, workers)
            by_spine[kind] = measure_errors(run, workers, range(seeds), estimators)
    errors = averaged({kind: measured.errors for kind, measured in by_spine.items()})
    coverage = covered({kind: measured.coverage for kind, measured in by_spine.items()})
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    tables = write_report(place, errors, coverage, kinds, estimators, {"Data": str(data), "Seeds": str(seeds)})
    err.print(labelled("NOT PRIVATE:", "errors against exact counts, of synthetic data."))

    facts = {
        "NOT_PRIVATE": True,
        "report": place / "error.html",
        "errors": _records(errors),
        "coverage": _records(coverage),
    }
    report(facts, tables, Format.table, as_json=options.as_json)


def _records(table: DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a table for JSON; null for a value that is not known, as a spread over one seed."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
