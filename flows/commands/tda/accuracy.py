"""`das tda accuracy`: the errors of the TopDown Algorithm on synthetic data, for each spine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.fields import Settings, Values
from flows.commands.options import ExactOptions
from flows.commands.runner import planned_run
from flows.commands.tda.declared import DeclarationOption
from flows.execution.systems import SYSTEMS
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from flows.reports.terminal import err, labelled, report
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.releases.pages.text_table import TextTable
from tasks.releases.pages.words import TRUTH
from tasks.top_down.choices import ESTIMATORS
from tasks.top_down.choices import Estimator as EstimatorName

if TYPE_CHECKING:
    from pandas import DataFrame


# Enumerations, because an option that is repeated takes no literal.
Kind = StrEnum("Kind", ["conventional", "aian", "optimized"])
Estimator = StrEnum("Estimator", ["topdown", "gls"])
Place = Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go.")]
Kinds = Annotated[list[Kind] | None, typer.Option(help="Only this spine; may be repeated.", show_default="all")]
Estimators = Annotated[
    list[Estimator] | None, typer.Option(help="Only this estimator; may be repeated.", show_default="both")
]
Runs = Annotated[int, typer.Option(min=1, help="Independent runs on each spine.")]


def accuracy(
    chosen: Annotated[Values, Settings(TopDownSettings, SYSTEMS["top-down"].inputs)],
    place: Place,
    spine: Kinds = None,
    estimator: Estimators = None,
    runs: Runs = 3,
    declaration: DeclarationOption = None,
    *,
    options: ExactOptions,
) -> None:
    """Report the errors of counts on synthetic data, by level and kind of area. NOT PRIVATE.

    Total, voting age, Hispanic and race, by level, place, county subdivision and AIAN area. Each spine and
    estimator is shown, both estimators on the same measurements, with the share of counts within their margins of
    error. OUT gets error.csv, coverage.csv, error.html with charts, and board.svg, one picture of it all. NOT
    PRIVATE, and only for data that is marked synthetic or public: on confidential data each spine would be a
    measurement and a charge of its own.

    With --declaration, DATA is a table of marked records, and the counts are those of the declaration's published
    tables and query groups; the estimator is topdown, unless --estimator says otherwise.

    **Example:** `das tda accuracy ri/ errors/ --runs 3`
    """
    check_empty(place)
    if declaration is not None:
        by = [name for name in ESTIMATORS if name in (estimator or ("topdown",))]
        facts, tables = _of_declaration(options, chosen["data"], declaration, place, runs, by)
    else:
        by = [name for name in ESTIMATORS if name in (estimator or ESTIMATORS)]
        facts, tables = _of_spines(options, chosen, place, dict.fromkeys(kind.value for kind in spine or ()), runs, by)
    err.print(labelled("NOT PRIVATE:", f"{facts.pop('statement')}."))
    facts = {"NOT_PRIVATE": True, "report": place / "error.html", **facts}
    report(facts, tables)


Reported = tuple[dict[str, Any], Sequence[TextTable]]  # errors as data, with a statement of what they are; as tables


def _of_spines(
    options: ExactOptions,
    chosen: Values,
    place: Path,
    spines: Iterable[str],
    runs: int,
    estimators: Sequence[EstimatorName],
) -> Reported:
    """Measure and report the errors of the redistricting data's counts on some spines, by default all."""
    import pandas as pd

    from flows.execution.repetitions import count_marked
    from tasks.geography.names import name_of_state, title_of_states
    from tasks.top_down.accuracy.errors import averaged, covered, measure_errors, targeted
    from tasks.top_down.accuracy.report import write_report
    from tasks.top_down.run_plan import SPINES

    kinds, base, measured = tuple(spines) or SPINES, TopDownSettings.new_id("accuracy"), []
    for kind in kinds:
        changes = {"out": str(place), "spine": kind}
        settings = planned_run(options, TopDownSettings, f"{base}-{kind}", chosen | changes)
        run = settings.directory
        with options.leaving_nothing(f"{kind} spine", run) as workers:
            mark = count_marked(settings, workers)["validate"].mark
            states = title_of_states([*map(name_of_state, run.validated.states)])
            measured.append(measure_errors(run, workers, range(runs), tuple(estimators)))
    of_all = (pd.concat(tables, ignore_index=True) for tables in zip(*measured, strict=True))
    averages = zip((averaged, covered, targeted), of_all, strict=True)
    errors, coverage, target = (average(table) for average, table in averages)
    about = {"truth": TRUTH[mark], "States": states, "Data": chosen["data"], "Runs": str(runs)}
    with new_folder(place, 0o700) as folder:
        tables = write_report(folder, errors, coverage, kinds, tuple(estimators), about, target)
    found = {"errors": errors, "coverage": coverage, "target": target}
    return {"statement": TRUTH[mark], **{name: _records(table) for name, table in found.items()}}, tables


def _of_declaration(
    options: ExactOptions,
    data: str,
    declaration: str,
    place: Path,
    runs: int,
    estimators: Sequence[EstimatorName],
) -> Reported:
    """Measure and report the errors of a declaration's counts on marked data."""
    from flows.execution.repetitions import count_marked
    from tasks.top_down.declared.accuracy import measure_errors, write_report

    typed = {"data": data, "declaration": declaration, "out": str(place)}
    settings = planned_run(options, DeclaredSettings, DeclaredSettings.new_id("accuracy"), typed)
    with options.leaving_nothing("Errors", settings.directory) as workers:
        mark = count_marked(settings, workers)["validate"].mark
        errors, words = measure_errors(settings.directory, workers, range(runs), tuple(estimators))
    about = {"truth": TRUTH[mark], "Data": data, "Runs": str(runs)}
    with new_folder(place, 0o700) as folder:
        tables = write_report(folder, errors, words, about)
    return {"statement": TRUTH[mark], "errors": _records(errors)}, tables[:1]


def _records(table: DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a table for JSON; null for a value that is not known, as a spread over one seed."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
