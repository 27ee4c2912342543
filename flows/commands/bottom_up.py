"""`das bottom-up`: a histogram of all factors with two-tailed geometric noise in every cell, margins by addition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.options import (
    LedgerFile,
    MemoryLimit,
    Scheduler,
    State,
    TlsCa,
    TlsCert,
    TlsKey,
    WorkersOption,
    folder,
)
from flows.commands.resume import check_resume, cluster_of_resumed, refuse
from flows.reports.formats import Format, FormatOption, TextTable, report
from flows.reports.terminal import Json, err, interruptible, out, refusing, show, unforeseen
from tasks.lifecycle.errors import Failed, Refused

if TYPE_CHECKING:
    from flows.execution.bottom_up_settings import BottomUpSettings
    from privacy.analyses.accuracy_curve import Point

app = typer.Typer(help="The two-tailed geometric bottom-up mechanism (Clark, Dajani 2019).", no_args_is_help=True)

TableArgument = Annotated[str | None, typer.Argument(help="The table: text or Parquet (path or URL).")]
DomainArgument = Annotated[Path | None, typer.Argument(help="The declared domain (JSON): factors, levels, states.")]
SamplerOption = Annotated[
    Literal["exact", "slides"],
    typer.Option(help="`exact`, or `slides`: their float inverse CDF, for synthetic data only."),
]
Totals = Annotated[Path | None, typer.Option("--calibrate", help="Published totals to calibrate to (CSV).")]
Method = Annotated[Literal["additive", "ratio", "nonnegative"], typer.Option(help="How to calibrate.")]
Tolerance = Annotated[str, typer.Option(help="How far a published total may be from the data and count as consistent.")]
Clip = Annotated[bool, typer.Option("--clip", help="Publish no negative count (biases counts upwards).")]
STANDARD = ("0.01", "0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8")


@app.command("run")
def run(
    context: typer.Context,
    table: TableArgument = None,
    domain: DomainArgument = None,
    release: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Where the release goes, OUT/bottom-up.", callback=folder)
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy-loss budget of the histogram, exact: 0.5 or 1/2.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="The account that is charged; none for synthetic data.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Go on with a run that stopped.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Name the run.")] = None,
    margin: Annotated[
        list[str] | None, typer.Option(help="A margin, `A,B,...`; may be repeated. Default: the total, each factor.")
    ] = None,
    calibrate: Totals = None,
    method: Method = "additive",
    tolerance: Tolerance = "0",
    clip: Clip = False,
    sampler: SamplerOption = "exact",
    ledger: LedgerFile = None,
    state: State = None,
    workers: WorkersOption = None,
    memory_limit: MemoryLimit = "auto",
    scheduler: Scheduler = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    as_json: Json = False,
) -> None:
    """Release a noisy histogram and its margins. One epsilon pays for all cells; margins are their sums.

    A run that stops is taken up by --resume ID without spending again, elsewhere if options name another cluster; its
    id is printed at the start. Beside --resume stand only --state, --ledger and --json, --workers and --memory-limit,
    --scheduler and its certificates.

    **Example:** `das bottom-up run table.parquet domain.json out/ --epsilon 1/2 --account long-form-1960`
    """
    from flows.execution.bottom_up_settings import BottomUpSettings, new_bottom_up_settings
    from flows.execution.cluster import ClusterSettings
    from flows.execution.settings import keep_settings, new_run_id, run_directory, state_home
    from flows.reports.curator import other_data_warning
    from tasks.lifecycle.commit import check_out
    from tasks.lifecycle.run_directory import RunDirectory, locked

    home = state or state_home()
    if resume is not None:
        check_resume(context)
        found = BottomUpSettings.load(run_directory(home, resume))
        if found is None:
            raise Refused(f"run {resume} has no confidential directory here, or is no bottom-up run")
        if ledger and str(ledger.absolute()) != found.ledger:
            refuse(context, ["ledger"], f"the run is charged in {found.ledger}")
        settings = found.model_copy(update={"cluster": cluster_of_resumed(context, found.cluster)})
        _show_spend(settings)
    elif table is None or domain is None or release is None or epsilon is None:
        raise typer.BadParameter("TABLE, DOMAIN, OUT and --epsilon are needed, or --resume ID")
    else:
        cluster = ClusterSettings(
            workers=workers,
            memory_limit=memory_limit,
            scheduler=scheduler,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
        )
        settings = new_bottom_up_settings(
            table=table,
            domain=str(domain),
            out=str(release),
            epsilon=epsilon,
            sampler=sampler,
            totals=str(calibrate) if calibrate else None,
            calibration=method,
            tolerance=tolerance,
            margins=_margins(margin),
            clip=clip,
            account=account,
            ledger=str(ledger or home / "ledger.sqlite"),
            state=str(home),
            run_id=run_id or new_run_id("bottom-up"),
            cluster=cluster,
        )
        _show_spend(settings)
        kept = RunDirectory(settings.runs / str(settings.run_id))
        check_out(kept, Path(settings.out), settings.folder)
        try:
            with locked(kept):  # from here on it can be resumed
                keep_settings(kept, settings)
        except OSError as error:
            raise Refused(f"{home} cannot be written: {error.strerror}") from None
    again = f"nothing is lost, go on with: das bottom-up run --resume {settings.run_id} --state {settings.state}"
    with interruptible(f"interrupted; {again}"):
        told = _run(settings, again)
    if told["other_data"]:
        err.print(other_data_warning(told["run"], told["other_data"]))
    show(told, lambda: _summary(told), as_json=as_json)


def _margins(texts: Sequence[str] | None) -> tuple[tuple[str, ...], ...] | None:
    if texts is None:
        return None
    return tuple(tuple(name.strip() for name in text.split(",") if name.strip()) for text in texts)


def _show_spend(settings: BottomUpSettings) -> None:
    spend = settings.plan().mechanism.spend
    unbounded, bounded = float(spend.unbounded), float(spend.bounded)
    err.print(f"The run spends epsilon {unbounded:g} (add or remove one record), {bounded:g} (replace one).")


def _run(settings: BottomUpSettings, again: str) -> dict[str, Any]:
    from flows.bottom_up import bottom_up
    from flows.execution.progress import bars
    from flows.reports.curator import findings_table, load_findings, other_data
    from tasks.lifecycle.manifest import read_manifest
    from tasks.lifecycle.run_directory import RunDirectory

    try:
        with bars(f"Run {settings.run_id}"):
            place = bottom_up(settings)
    except Refused:
        directory = RunDirectory(settings.runs / str(settings.run_id))
        if found := load_findings(directory):
            out.print(findings_table(found))
            err.print(f"The values are in the curator's report: {directory / 'findings.json'}")
        raise
    except Failed as failed:
        raise Failed(f"{failed}; {again}") from None
    except Exception as error:
        raise Failed(f"{unforeseen(error)}; {again}") from None
    manifest = read_manifest(Path(place))
    told = {"run": settings.run_id, "release": place, "spent": manifest["spent"], "synthetic": "SYNTHETIC" in manifest}
    told["other_data"] = other_data(Path(settings.ledger), str(settings.run_id))
    return told | {"cells": manifest["histogram"]["cells"], "groups": manifest["calibration"]["groups"]}


def _summary(told: dict[str, Any]) -> str:
    charged = " (synthetic: not charged)" if told["synthetic"] else ""
    lines = [
        f"run {told['run']}: {told['cells']:,} cells at epsilon {told['spent']['unbounded']['decimal']:g}{charged}"
    ]
    cases: dict[str, list[str]] = {}
    for group in told["groups"]:
        cases.setdefault(group["case"], []).append(" ".join(value for name, value in group.items() if name != "case"))
    lines += [f"{case}: {len(groups)} groups" for case, groups in cases.items() if case != "inconsistent"]
    if dropped := cases.get("inconsistent"):
        lines.append(f"not reported, for their published total does not agree: {', '.join(dropped)}")
    return "\n".join([*lines, f"release: {told['release']}"])


@app.command("example")
def example(
    folder: Annotated[Path, typer.Argument(help="Where the files go; a new or empty folder.")],
    rows: Annotated[int, typer.Option(min=1, help="Records of the table.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic table.")] = 1960,
    as_json: Json = False,
) -> None:
    """Make a synthetic table of counties by sex by group quarters by age, with its domain and published state totals.

    **Example:** `das bottom-up example example/ --rows 100000`, then
    `das bottom-up run example/table.parquet example/domain.json out/ --epsilon 1 --calibrate example/totals.csv`
    """
    from tasks.bottom_up.example import make_example

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} holds something already")
    made = make_example(folder, rows, seed=seed)
    show(vars(made), lambda: "\n".join(f"{name}: {path}" for name, path in vars(made).items()), as_json=as_json)


@app.command("noise")
def noise(
    epsilon: Annotated[list[str] | None, typer.Option(help="A budget, exact; may be repeated.")] = None,
    cells: Annotated[list[int] | None, typer.Option(min=1, help="Cells of a margin; may be repeated.")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Also show epsilon by secrecy of the sample; no run is charged less by it.")
    ] = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """The noise of one cell and of margins at several epsilons, in closed form; the margins of error are exact.

    **Example:** `das bottom-up noise --epsilon 0.5 --epsilon 1 --cells 2 --cells 100`
    """
    from privacy.accounting.bottom_up import BottomUp
    from privacy.accounting.conversions import secrecy_of_the_sample
    from privacy.analyses.geometric_moments import absolute_sum, moments
    from privacy.noise.margins import margin_of_error

    sizes = cells or [1, 2, 4, 10, 100]
    told: list[dict[str, Any]] = []
    for value in _budgets(epsilon):
        mechanism = BottomUp(value)
        law = moments(float(value))
        of_sums = [
            {"cells": m, "absolute": absolute_sum(float(value), m), "margin": margin_of_error(mechanism.law, m)}
            for m in sizes
        ]
        told.append({"epsilon": value, **vars(law), "margins": of_sums})
        if sampling_rate is not None:
            with refusing():
                told[-1]["sampled"] = secrecy_of_the_sample(float(value), sampling_rate)
    head = ["epsilon", "p", "P(0)", "E|N|", "Var N", "E N^4", *(f"95% margin, {m} cells" for m in sizes)]
    rows = [
        [_short(row["epsilon"]), *(f"{row[name]:.6g}" for name in ("p", "zero", "absolute", "variance", "fourth"))]
        + [str(each["margin"]) for each in row["margins"]]
        for row in told
    ]
    sums = [[_short(row["epsilon"]), *(f"{each['absolute']:.5f}" for each in row["margins"])] for row in told]
    tables = [
        TextTable("Two-tailed geometric noise of a cell, in counts; sensitivity 1", head, rows),
        TextTable("Expected absolute error of a margin", ["epsilon", *(f"{m} cells" for m in sizes)], sums),
    ]
    if sampling_rate is not None:
        sampled = [[_short(row["epsilon"]), f"{row['sampled']:.6g}"] for row in told]
        tables.append(
            TextTable(f"Secrecy of a sample of rate {sampling_rate:g}", ["epsilon", "for the population"], sampled)
        )
    report(told, tables, form, as_json=as_json)


def _budgets(texts: Sequence[str] | None) -> list[Fraction]:
    from flows.reports.figures import fraction

    return [fraction(text, "--epsilon") for text in texts or STANDARD]


def _short(value: Fraction) -> str:
    return f"{float(value):g}"


@app.command("curve")
def curve(
    table: TableArgument = None,
    domain: DomainArgument = None,
    counts: Annotated[str | None, typer.Option(help="Counts instead of a table, `120,40,15,...`.")] = None,
    epsilon: Annotated[list[str] | None, typer.Option(help="A budget, exact; may be repeated.")] = None,
    replicates: Annotated[int, typer.Option(min=2, help="Simulated releases at each epsilon.")] = 20,
    calibrate: Totals = None,
    method: Method = "additive",
    clip: Clip = False,
    sampler: SamplerOption = "exact",
    plot: Annotated[Path | None, typer.Option(help="Draw the curve into this file: .svg, .png or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Draw .png and .pdf for a dark page.")] = False,
    curator: Annotated[
        bool, typer.Option("--i-am-the-curator", help="Allow data that is not synthetic: the figures are not private.")
    ] = False,
    workers: WorkersOption = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """Replicate the mechanism at several epsilons: L1, L2 and the accuracy curve, beside their closed forms.

    A1 = 1 - sum|t-c| / sum t, A2 = 1 - sum(t-c)^2 / sum t^2 for true counts t and released counts c. The figures come
    from exact counts and are NOT PRIVATE: they are for the choice of epsilon behind closed doors.

    **Example:** `das bottom-up curve --counts 120,40,15,900,300,60,5,0,20,10 --plot curve.svg`
    """
    from flows.reports.bottom_up_curve import simulate_counts, simulate_table

    budgets = _budgets(epsilon)
    if counts is not None:
        simulation, unit = simulate_counts(counts), "records"
    elif table is None or domain is None:
        raise typer.BadParameter("TABLE and DOMAIN are needed, or --counts")
    else:
        simulation, unit = simulate_table(table, domain, calibrate, curator=curator, workers=workers)
    with refusing():
        simulation = replace(simulation, method=method, clip=clip, sampler=sampler)
        points = list(simulation.curve(budgets, replicates))
    if plot:
        from flows.reports.bottom_up_chart import draw_curve
        from flows.reports.charts import save

        save(lambda: draw_curve(points, simulation.expected, unit), plot, dark=dark)
    notes = [
        "NOT PRIVATE: computed from exact counts, for choosing epsilon behind closed doors.",
        f"{len(simulation.truth):,} cells, {replicates} replicates: mean ± standard error. L1 in {unit}, L2 squared.",
        "A1 = 1 - sum|t-c| / sum t, A2 = 1 - sum(t-c)² / sum t²; E: closed form. ROC in the slides, which it is not.",
    ]
    data = {"unit": unit, "cells": len(simulation.truth), "replicates": replicates, "notes": notes}
    data["points"] = [
        {"epsilon": float(point.epsilon), **{name: _errors(point, name) for name in ERRORS}} for point in points
    ]
    report(data, [_curve_table(points, notes)], form, as_json=as_json)


ERRORS = ("l1", "l2", "a1", "a2", "a1_half")


def _errors(point: Point, name: str) -> dict[str, Any]:
    closed = getattr(point.expected, name) if point.expected else None
    return {"mean": getattr(point.mean, name), "se": getattr(point.standard_error, name), "expected": closed}


def _curve_table(points: Sequence[Point], notes: list[str]) -> TextTable:
    names = {"l1": "L1", "l2": "L2", "a1": "A1", "a2": "A2"}
    head = ["epsilon", *(heading for name in names.values() for heading in (name, f"E {name}"))]
    rows = []
    for point in points:
        row = [_short(point.epsilon)]
        for name in names:
            told = _errors(point, name)
            form = "{:.5g}" if name.startswith("l") else "{:.5f}"
            spread = f"{told['se']:.2g}"
            row += [
                f"{form.format(told['mean'])} ± {spread}",
                "" if told["expected"] is None else form.format(told["expected"]),
            ]
        rows.append(row)
    return TextTable("Accuracy curve of the bottom-up mechanism", head, rows, notes)
