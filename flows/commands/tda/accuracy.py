"""`das tda accuracy`: the errors of the TopDown Algorithm on synthetic data, for each spine."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.fields import Chosen, Settings
from flows.commands.options import ExactOptions
from flows.commands.runner import planned_runs
from flows.commands.systems import TOP_DOWN
from flows.commands.tda.declared import DeclarationOption, refuse_others
from flows.execution.top_down_settings import DeclaredSettings, TopDownSettings
from flows.reports.terminal import Format, err, labelled, report
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.pages.words import TRUTH
from tasks.top_down.choices import ESTIMATORS
from tasks.top_down.choices import Estimator as EstimatorName

if TYPE_CHECKING:
    from pandas import DataFrame


# Enumerations, because an option that is repeated takes no literal.
Kind = StrEnum("Kind", ["conventional", "aian", "optimized"])
Estimator = StrEnum("Estimator", ["topdown", "gls"])


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
    if len(kinds) * len(estimators) > 1:
        raise Refused("replicates are runs of one program: give one --spine and one --estimator")
    if seeds < 2:
        raise Refused(f"--seeds {seeds}: runs are compared by their spread: give 2 or more, 10 for a verdict")
    if not replicates.exists():
        raise Refused(f"{replicates} is not there: give the folder of the replicates, or their CSV of counts")


def _records(table: DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a table for JSON; null for a value that is not known, as a spread over one seed."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
