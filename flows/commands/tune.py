"""`das tune`: the SafeTEx tool. Margins, population sizes, suppression and privacy loss over the parameters."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.fields import given, refuse
from flows.reports.figures import delta_of, fraction, share
from flows.reports.terminal import Format, FormatOption, Json, err, out, report
from tasks.errors import Refused

if TYPE_CHECKING:
    from flows.reports.tuning.plan import BudgetPlan
    from flows.reports.tuning.queries import Design

COMMON = {"source", "margin", "delta", "form", "as_json"}  # what `das tune` takes for any system


def tune(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(help="A config.json or its folder, a release, its manifest.json, or a declaration."),
    ] = None,
    level: Annotated[list[str] | None, typer.Option(help="`LEVEL=BUDGET`; may be repeated.")] = None,
    exclude_level: Annotated[
        list[str] | None, typer.Option(help="A level that is not measured; may be repeated.")
    ] = None,
    total: Annotated[str | None, typer.Option(help="Scale the budgets to this sum of rho or epsilon.")] = None,
    definition: Annotated[str | None, typer.Option(help="`zcdp` or `puredp`.  [default: zcdp]")] = None,
    gamma: Annotated[str | None, typer.Option(help="The share of step 1, between 0 and 1.  [default: 0.1]")] = None,
    race_codes: Annotated[int | None, typer.Option(help="Race multiplicity, 1 to 8.  [default: 8]")] = None,
    margin: Annotated[int | None, typer.Option(help="Target margin of error, in counts at 95%.")] = None,
    relative_error: Annotated[
        str | None, typer.Option(help="Target margin as a share of the average count.  [default: 0.1]")
    ] = None,
    chance: Annotated[
        str | None,
        typer.Option(help="Probability that a group of size 0 is suppressed, at least 0.5.  [default: 0.9999]"),
    ] = None,
    delta: Annotated[str, typer.Option(help="Strictly between 0 and 1.")] = "1e-10",
    households: Annotated[
        bool, typer.Option("--households", help="Of the Detailed DHC-B, by SOURCE or of production (NMFv5).")
    ] = False,
    jurisdiction: Annotated[str | None, typer.Option(help="`us` or `pr`, of a configuration with both.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="A second SOURCE: print the levels that differ, as `first → second`.")
    ] = None,
    solve: Annotated[
        str | None,
        typer.Option(metavar="QUESTION", help="Print the least budget of a level that gives a statistic its margin."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with sliders and charts; works offline.")] = None,
    xlsx: Annotated[Path | None, typer.Option(help="Write a workbook with live sums.")] = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """What a choice of parameters of SafeTab-P gives, from public numbers alone: the SafeTEx tool of its paper.

    Population sizes from which total, age4, age9 and age23 meet a target error; margins of error; suppression of small
    groups and its bias; privacy loss as levels are switched on and off; margins over budgets. Without a source or
    levels: those of production (SafeTab-P, Table 7).

    Of a config.json or a release of the S-DHC, or a declaration for das bottom-up: the noise of every query and what a
    run spends, at the sum --total (of a declaration 1); with --margin the least budget of each query. --households: the
    same for SafeTab-H, whose unit of privacy is a household.

    --solve has the least budget for a margin, and what else it moves: "count of 500 within 10%", "total of a county,
    detailed within 20", or `das tune --solve "County, Detailed: total of 23 ages <= 20"`. Other statistics are
    "TotalOnly total", "step 1 total" and "count of step 2", which a count or total by itself is. Without a level it
    answers for each: whether its budget meets the margin already, and the release with this level alone changed.

    **Example:** `das tune --level "Nation, Detailed=2.134" --level "County, Detailed=.159" --race-codes 3`
    """
    from flows.reports.tuning import queries
    from flows.reports.tuning.plan import chance_of_zeros, first_plan, targeted
    from flows.reports.tuning.tuning import answers, tables
    from tasks.bottom_up.declared_histogram import is_declaration
    from tasks.s_dhc.budgets import is_of_s_dhc

    scale = None if total is None else fraction(total, "total")
    if households:
        _refuse_others(context, "--households takes SOURCE, ", {"households"})
        return _queries(queries.households(source), margin, delta, form, as_json=as_json)
    if source is not None and is_of_s_dhc(source):
        _refuse_others(context, "a source of the S-DHC takes --total, ", {"total"})
        return _queries(queries.s_dhc(source, scale), margin, delta, form, as_json=as_json)
    if source is not None and is_declaration(source):
        _refuse_others(context, "a declaration of das bottom-up takes --total, its epsilon, ", {"total"})
        return _queries(queries.bottom_up(source, scale or Fraction(1)), margin, delta, form, as_json=as_json)

    def changed(plan: BudgetPlan) -> BudgetPlan:
        plan = replace(targeted(plan, margin, relative_error), delta=delta_of(delta))
        if gamma is not None:
            plan = replace(plan, gamma=share(gamma, "gamma"))
        if chance is not None:
            plan = replace(plan, chance=chance_of_zeros(chance))
        if race_codes is not None:
            plan = plan.of_multiplicity(race_codes)
        plan = plan.without(exclude_level or [])
        return plan if scale is None else plan.scaled(scale)

    plan = changed(first_plan(source, level, definition, jurisdiction))
    if against is not None:
        from flows.reports.tuning.against import differences

        refuse(context, given(context).keys() & {"solve", "html", "xlsx"}, "--against compares two sets of parameters")
        table = differences(answers(plan), answers(changed(first_plan(against, None, None, jurisdiction))))
        data = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        return report(data, [table], form, as_json=as_json)
    if html is not None:
        from flows.reports.tuning.page import page

        _write(html, page(plan).encode())
    answered = answers(plan)
    if xlsx is not None:
        from flows.reports.tuning.workbook import workbook

        _write(xlsx, workbook(plan, answered, tables(answered)))
    if solve is not None:
        return _solve(plan, solve, form, as_json=as_json)
    report(answered, tables(answered), form, as_json=as_json)


def _refuse_others(context: typer.Context, takes: str, options: set[str]) -> None:
    """Refuse options that a system has no use for."""
    refuse(context, given(context).keys() - COMMON - options, f"{takes}--margin, --delta, --format and --json alone")


def _queries(design: Design, margin: int | None, delta: str, form: Format, *, as_json: bool) -> None:
    """Print what a run of another system spends and the noise of its queries."""
    from flows.reports.tuning.queries import answers, tables

    answered = answers(design, margin, delta_of(delta))
    report(answered, tables(answered), form, as_json=as_json)


def _solve(plan: BudgetPlan, text: str, form: Format, *, as_json: bool) -> None:
    """Print what was understood, the least budget, and for each level what it means."""
    from flows.reports.tuning.solve import read_question, result, sentence, solve, table

    solved = solve(plan, read_question(text, plan))
    if form is Format.table and not as_json:
        out.print(f"{solved['asked']}\n{result(solved)}\n{sentence(solved)}\n")
    report(solved, [table(solved)], form, as_json=as_json)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None
    err.print(f"wrote {path}")
