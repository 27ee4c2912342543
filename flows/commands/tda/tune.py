"""`das tda tune`: what shares of the budget buy, before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flows.commands.fields import Settings, Values
from flows.commands.options import ExactOptions
from flows.commands.runner import planned_run
from flows.execution.progress import report as progress
from flows.execution.systems import SYSTEMS, all_data_files
from flows.execution.top_down_settings import TopDownSettings
from flows.reports.figures import near
from flows.reports.forecast.options import Search
from flows.reports.terminal import Format, FormatOption, counting, err, is_json, report, write_file
from spine.allocations import Allocation
from tasks.errors import Refused
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import state_home
from tasks.releases.pages.text_table import TextTable

if TYPE_CHECKING:
    from pandas import DataFrame

    from tasks.top_down.accuracy.forecast import RunForecast
    from tasks.top_down.input.block_run import TopDownRun

BUDGETS = ("persons_budget", "units_budget", "persons_allocation", "units_allocation")
FIELDS = (*SYSTEMS["top-down"].inputs, "spine", "nation", "definition", "estimator", *BUDGETS)
STAND_IN_SEED = 1  # not that of `das synth`: records that a rehearsal measures are not their own stand-in


def tune(
    chosen: Annotated[Values, Settings(TopDownSettings, FIELDS)],
    search: Search,
    against: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Show another allocation of persons before, instead of production's."),
    ] = None,
    check: Annotated[int | None, typer.Option(min=1, help="Measure so many runs on the stand-in as well.")] = None,
    save: Annotated[
        Path | None, typer.Option("--out", help="Write the shares of persons as an allocation file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with sliders and charts; works offline.")] = None,
    form: FormatOption = Format.table,
    *,
    options: ExactOptions,
) -> None:
    """What shares of the TopDown Algorithm's budget buy: the errors to expect, before anything is measured.

    DATA is a block table, whose people are made up, or a folder of records that are marked synthetic or public. Errors
    of totals, races, voting age by race and occupied units are predicted by level and kind of area, from the spine and
    the budgets alone: for the shares of production, and as --level, --query, --persons-budget and the allocation files
    change them; with --against, for another allocation file and for these. Shares that are not typed keep their
    proportions.

    --solve finds the least budget for a target: "95% of places: largest group within 5 points", "tract: total error <=
    2" or "tract: total margin <= 10". --best finds the shares that lower the predicted errors most at the same budget,
    of all rows or of those that --aim names; --pareto those between two aims. With --best, --solve then finds the least
    budget with these shares: of all rows, unless --aim names the target's. --check measures real runs with the same
    shares and shows their errors next to the prediction.

    **Example:** `das tda tune ri2020.pl.zip --level "State=.06" --query "Tract: total=.4"`
    """
    from flows.execution.repetitions import count_marked
    from flows.reports.forecast.page import page
    from flows.reports.forecast.searches import check_words
    from flows.reports.forecast.tables import compare_with_measured
    from tasks.geography.spine_options import read_allocation
    from tasks.top_down.accuracy.forecast import production
    from tasks.top_down.run_plan import check_allocation

    design = planned_run(options, TopDownSettings, "tune", chosen | {"out": "out"}).design()
    if search != Search():
        check_words(_of_persons(design.allocations.get("persons"), "a search"), search)
    before = {name: production(design, name) for name in design.products}
    if against is not None:
        _of_persons(design.allocations.get("persons"), "--against")
        before["persons"] = read_allocation(against, None, design.settings["persons"])
        check_allocation("persons", before["persons"], design.settings["persons"], against)
    with _stand_in(chosen, options) as data, TemporaryDirectory() as scratch:
        typed = chosen | {"data": data, "out": str(Path(scratch) / "out")}
        settings = planned_run(options, TopDownSettings, TopDownSettings.new_id("tune"), typed)
        with options.leaving_nothing("Forecast", settings.directory) as workers:
            count_marked(settings, workers)
            answered, shown, fixed, shares, forecast = _answer(settings.directory, search, before)
            if html is not None:
                found = _of_persons(shares, "--html")
                write_file(html, page(forecast, found, before["persons"], str(chosen["data"]), fixed))
        if save is not None:
            write_file(save, json.dumps(_of_persons(shares, "--out").as_file(), indent=2) + "\n")
        if check is not None:
            measured = _measured(typed, options, _of_persons(shares, "--check"), scratch, check)
            shown.append(compare_with_measured(answered, *measured))
    report(answered, shown, form, answered.get("conclusion", ""))
    if save is not None:
        err.print(f"next: das tda run DATA OUT --persons-allocation {save}", soft_wrap=True)


@contextmanager
def _stand_in(chosen: Values, options: ExactOptions) -> Iterator[str]:
    """Yield the folder of the stand-in: the one that was typed, or one made up on the blocks of a table."""
    data = str(chosen["data"])
    if "://" in data or any(Path(data).glob("persons.*")):
        yield data
        return
    if other := [name for system in all_data_files() for name in system.records if (Path(data) / name).exists()]:
        raise Refused(f"{data} holds {other[0]}, of another system: give a block table, or a folder of das tda synth")
    from tasks.synth.synthesize import synthesize_top_down

    use_kernels(state_home())
    with TemporaryDirectory() as folder, counting("persons", quiet=is_json()) as progress:
        made = Path(folder) / "data"
        about = {"jurisdiction": chosen.get("jurisdiction", "us"), "states": chosen.get("states", ())}
        synthesize_top_down(Path(data), made, seed=STAND_IN_SEED, progress=progress, **about)
        yield str(made)


class Answer(NamedTuple):
    """What shares are predicted to give, as data and tables; fixed: those that the page cannot compute itself.

    shares: of persons, if the run has them; forecast: of persons, or else of units.
    """

    data: dict[str, Any]
    shown: list[TextTable]
    fixed: list[TextTable]
    shares: Allocation | None
    forecast: RunForecast


def _answer(run: TopDownRun, search: Search, start: Mapping[str, Allocation]) -> Answer:
    """Return what the typed or found shares are predicted to give, and the shares of persons.

    start: allocations whose errors are shown before. Raises Refused.
    """
    from flows.reports.forecast.searches import searched
    from flows.reports.forecast.tables import answers, conclusion, margins_table, shares_table, tables
    from tasks.top_down.accuracy.forecast import RunForecast
    from tasks.top_down.run_plan import US

    design = run.design
    forecasts = {name: RunForecast(run, name, with_below=design.estimator == "gls") for name in design.products}
    end = dict(design.allocations)
    if "persons" not in forecasts:
        data = answers(forecasts, start, end)
        return Answer(data, tables(data), [], None, forecasts["units"])
    found, searches, shown = searched(forecasts["persons"], end["persons"], progress, search)
    end["persons"] = found
    data = answers(forecasts, start, end) | searches | {"allocation": found.as_file()}
    if not design.with_nation(run.validated.states) and US in found.levels:
        run_design = replace(design, allocations=end)
        data["spends"] = {name: near(run_design.cost(name, nation=False), 10) for name in design.products}
    data["conclusion"] = conclusion(data, start["persons"], found)
    errors, *others = tables(data)
    fixed = [*others, margins_table(start, end, run)]
    shown += [errors, *fixed]
    if (found.levels, found.queries) != (start["persons"].levels, start["persons"].queries):
        shown.append(shares_table(start["persons"], found))
    return Answer(data, shown, fixed, found, forecasts["persons"])


def _measured(
    typed: Values, options: ExactOptions, shares: Allocation, scratch: str, runs: int
) -> tuple[DataFrame, DataFrame]:
    """Measure runs with these shares on the stand-in; return their errors, and how often they meet the target."""
    from flows.execution.repetitions import count_marked
    from tasks.top_down.accuracy.errors import averaged, measure_errors, targeted

    file = Path(scratch) / "shares.json"
    file.write_text(json.dumps(shares.as_file()), encoding="utf-8")
    typed = {name: value for name, value in typed.items() if name != "persons_budget"}
    settings = planned_run(
        options, TopDownSettings, TopDownSettings.new_id("tune"), typed | {"persons_allocation": str(file)}
    )
    with options.leaving_nothing("Runs", settings.directory) as workers:
        count_marked(settings, workers)
        estimator = settings.directory.design.estimator
        measured = measure_errors(settings.directory, workers, range(runs), [estimator])
    return averaged(measured.errors), targeted(measured.target)


def _of_persons(shares: Allocation | None, option: str) -> Allocation:
    if shares is None:
        raise Refused(f"{option} is about the shares of persons: leave --product units out")
    return shares
