"""`das tda accuracy`: errors of the TopDown Algorithm on marked data; `das tda compare-gls`: the Bureau's estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import ExactOptions
from flows.commands.runner import planned_runs
from flows.commands.systems import TOP_DOWN
from flows.commands.tda.declared import DeclarationOption, refuse_others
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from flows.reports.formats import Format, FormatOption, report
from flows.reports.terminal import Json, err, labelled
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.pages.text_table import TextTable
from tasks.top_down.choices import ESTIMATORS
from tasks.top_down.choices import Estimator as EstimatorName

if TYPE_CHECKING:
    from pandas import DataFrame

    from tasks.top_down.published.least_squares import Comparison


# Enumerations, because an option that is repeated takes no literal.
Kind = StrEnum("Kind", ["conventional", "aian", "optimized"])
Estimator = StrEnum("Estimator", ["topdown", "gls"])
SHOWN = 20  # of compare-gls: queries that are unlike N(0, 1)
SIZES = {"level": "{level}", "table": "{table_name}", "areas": "{geounits:,}", "cells": "{cells:,}"}
SCORES = {"mean z": "{mean_z:.3f}", "mean z²": "{mean_z2:.3f}", "with z": "{with_z:,}"}
DIFFERENCES = {"mean difference": "{mean_difference:.3f}", "rms difference": "{rms_difference:.3f}"}
ERRORS = {
    "our s.e.": "{our_error:.3f}",
    "their s.e.": "{their_error:.3f}",
    "ratio": "{error_ratio:.3f}",
    "theirs above ours": "{theirs_larger:,}",
    "apart": "{apart:,}",
}


@with_options
def accuracy(
    context: typer.Context,
    chosen: Annotated[Chosen, Settings(TopDownSettings, TOP_DOWN.inputs)],
    place: Annotated[Path, typer.Argument(metavar="OUT", help="Where the reports go.")],
    spine: Annotated[
        list[Kind] | None, typer.Option(help="Only this spine; may be repeated.", show_default="all")
    ] = None,
    estimator: Annotated[
        list[Estimator] | None, typer.Option(help="Only this estimator; may be repeated.", show_default="both")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Independent runs on each spine.")] = 3,
    replicates: Annotated[
        Path | None,
        typer.Option(
            help="Other runs on the same truth: folders or files whose names end in a number, or a CSV of counts. "
            "Compared with ours, on one spine (optimized) and by one estimator (topdown)."
        ),
    ] = None,
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

    With --replicates, runs by somebody else on the same truth are compared with ours: bias, root mean square error and
    coverage by level, and a verdict by exchange of runs between the two groups. A replicate is microdata, or what
    das tda public --histograms makes of it.

    With --declaration, DATA is a table of marked records, and the counts are those of the declaration's query groups;
    the estimator is topdown, unless --estimator says otherwise.

    **Example:** `das tda accuracy ri/ errors/ --seeds 3`
    """
    if declaration is not None:
        by = tuple(name for name in ESTIMATORS if name in (estimator or ("topdown",)))
        _accuracy_of_declaration(context, options, chosen["data"], declaration, place, seeds, by)
        return

    import pandas as pd

    from flows.execution.repetitions import count_marked
    from tasks.inputs.names import name_of_state, title_of_states
    from tasks.pages.words import TRUTH
    from tasks.top_down.accuracy.errors import averaged, covered, measure_errors, targeted
    from tasks.top_down.accuracy.report import write_report
    from tasks.top_down.published.replicates.compare import compare_runs, write_comparison
    from tasks.top_down.published.replicates.read_replicates import keep_runs, read_replicates
    from tasks.top_down.run_plan import SPINES

    check_empty(place)
    kinds = tuple(dict.fromkeys(kind.value for kind in spine or ()) or (["optimized"] if replicates else SPINES))
    names = {name.value for name in estimator or ()} or ({"topdown"} if replicates else {*ESTIMATORS})
    estimators = tuple(name for name in ESTIMATORS if name in names)
    if replicates:
        _check_replicates(replicates, kinds, estimators, seeds)
    base, measured, compared = TopDownSettings.new_id("accuracy"), [], None
    for kind in kinds:
        changes = {"out": str(place), "spine": kind}
        (settings,) = planned_runs(options, TopDownSettings, f"{base}-{kind}", chosen | changes)
        run = settings.directory
        with options.leaving_nothing(f"{kind} spine", run) as workers:
            mark = count_marked(settings, workers)["validate"].mark
            states = title_of_states([*map(name_of_state, run.validated.states)])
            if replicates:
                read = read_replicates(run, workers, replicates)
                err.print(f"{len(read)} replicates: {replicates}", soft_wrap=True)
            keep = partial(keep_runs, run, workers) if replicates else None
            measured.append(measure_errors(run, workers, range(seeds), estimators, keep))
            compared = compare_runs(run, workers) if replicates else None
    of_all = (pd.concat(tables, ignore_index=True) for tables in zip(*measured, strict=True))
    averages = zip((averaged, covered, targeted), of_all, strict=True)
    errors, coverage, target = (average(table) for average, table in averages)
    about = {"truth": TRUTH[mark], "States": states, "Data": chosen["data"], "Seeds": str(seeds)}
    with new_folder(place, 0o700) as folder:
        shown = write_comparison(folder, compared) if compared else None
        tables = write_report(folder, errors, coverage, kinds, estimators, about, target, shown)
    err.print(labelled("NOT PRIVATE:", f"{TRUTH[mark]}."))
    facts: dict[str, Any] = {"NOT_PRIVATE": True, "report": place / "error.html"}
    facts |= {"errors": _records(errors), "coverage": _records(coverage), "target": _records(target)}
    if compared and shown:
        facts |= {"differs": compared.differs, "verdict_in_words": compared.sentence, "incomplete": compared.incomplete}
        facts |= {name: _records(getattr(compared, name)) for name in ("table", "verdict")}
        tables = [shown["table"], shown["verdict"]]
    report(facts, tables, Format.table, as_json=options.as_json)


def _accuracy_of_declaration(
    context: typer.Context,
    options: ExactOptions,
    data: str,
    declaration: str,
    place: Path,
    seeds: int,
    estimators: Sequence[EstimatorName],
) -> None:
    """Report the errors of a declaration's counts on marked data."""
    from flows.execution.repetitions import count_marked
    from tasks.pages.words import TRUTH
    from tasks.top_down.declared.accuracy import measure_errors, write_report

    refuse_others(context, "replicates")
    check_empty(place)
    typed = {"data": data, "declaration": declaration, "out": str(place)}
    (settings,) = planned_runs(options, DeclaredSettings, DeclaredSettings.new_id("accuracy"), typed)
    with options.leaving_nothing("Errors", settings.directory) as workers:
        tabulated = count_marked(settings, workers)["tabulate"]
        errors, words = measure_errors(settings.directory, workers, range(seeds), estimators)
    about = {"truth": TRUTH[tabulated.mark], "Data": data, "Seeds": str(seeds)}
    with new_folder(place, 0o700) as folder:
        tables = write_report(folder, errors, words, about)
    err.print(labelled("NOT PRIVATE:", f"{TRUTH[tabulated.mark]}."))
    facts = {"NOT_PRIVATE": True, "report": place / "error.html", "errors": _records(errors)}
    report(facts, tables[:1], Format.table, as_json=options.as_json)


def _check_replicates(replicates: Path, kinds: tuple[str, ...], estimators: tuple[str, ...], seeds: int) -> None:
    """Refuse what cannot be compared, before anything is read."""
    from tasks.lifecycle.errors import Refused

    if len(kinds) * len(estimators) > 1:
        raise Refused("replicates are runs of one program: give one --spine and one --estimator")
    if seeds < 2:
        raise Refused(f"--seeds {seeds}: runs are compared by their spread: give 2 or more, 10 for a verdict")
    if not replicates.exists():
        raise Refused(f"{replicates} is not there: give the folder of the replicates, or their CSV of counts")


def _records(table: DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a table for JSON; null for a value that is not known, as a spread over one seed."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


def compare_gls(
    margins: Annotated[
        Path,
        typer.Argument(metavar="MARGINS", help="A release by das tda estimate --count pl94, or its folder margins/."),
    ],
    product: Annotated[
        Path,
        typer.Argument(
            metavar="GLS_DIR", help="The Bureau's 2020 Redistricting Data File Least Squares Estimates, as downloaded."
        ),
    ],
    place: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Where cells.parquet and by_query.csv go.")
    ] = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """Compare our unbiased estimates with the Census Bureau's, cell by cell.

    For each cell of the tables P1 to P5, by state, county and tract. The Bureau also uses the measurements of the
    DHC. So with margins made by `--free` the difference over its standard deviation, z = (ours - theirs) /
    sqrt(s_ours² - s_theirs²), must be N(0, 1), and no standard error of theirs above ours. Margins made without it
    use what the Bureau leaves out: they are compared by differences and ratios alone.

    **Example:** `das tda compare-gls out/us census-2020-pl94-gls/`
    """
    from tasks.top_down.published.least_squares import compare_with_bureau, described

    if place is not None:
        check_empty(place)
    comparison = compare_with_bureau(margins, product, place)
    report(described(comparison), _tables(comparison), form, as_json=as_json)


def _tables(comparison: Comparison) -> Iterator[TextTable]:
    from tasks.top_down.published.least_squares import APART, CHANCE

    columns = SIZES | (SCORES if comparison.free else DIFFERENCES) | ERRORS
    title = f"Ours and the Bureau's {comparison.verdict}"
    notes = [f"apart: estimates that differ by more than {APART} standard errors of both together. s.e.: means."]
    if not comparison.free:
        notes.append("No z: these margins know state totals and blocks' zeros, which the Bureau's do not.")
    yield _filled(title, columns, comparison.by_table, [*notes, *comparison.notes])
    if len(comparison.unlike):
        shown = comparison.unlike.head(SHOWN)
        of = f"the first {SHOWN} of {len(comparison.unlike):,} queries" if len(comparison.unlike) > SHOWN else "queries"
        columns = {"level": "{level}", "query": "{query}", "areas": "{geounits:,}"} | SCORES | ERRORS
        notes = [f"A query that is N(0, 1) is among them with a chance of {CHANCE}, were its areas independent."]
        yield _filled(f"Not N(0, 1): {of}", columns, shown, notes)


def _filled(title: str, columns: dict[str, str], rows: DataFrame, notes: list[str]) -> TextTable:
    table = TextTable.filled(title, columns, rows.to_dict("records"), words=2)
    cells = [["" if cell == "nan" else cell for cell in row] for row in table.rows]
    return replace(table, rows=cells, notes=notes)
