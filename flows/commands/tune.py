"""`das tune`: the SafeTEx tool. Margins, population sizes, suppression and privacy loss for parameters to choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.commands.fields import given, refuse
from flows.reports.figures import delta_of, fraction, share
from flows.reports.terminal import Format, FormatOption, report, write_file
from spine.settings import Definition, Jurisdiction

if TYPE_CHECKING:
    from flows.reports.tuning.plan import BudgetPlan
    from flows.reports.tuning.queries import SystemQueries

COMMON = {"source", "margin", "solve", "delta", "form", "as_json"}  # options of `das tune` for any system
Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="SOURCE", help="A config.json or its folder, a release, its manifest.json, or a declaration."
    ),
]
Households = Annotated[
    bool, typer.Option("--households", help="Of the Detailed DHC-B, by SOURCE or of production (NMFv5).")
]
Against = Annotated[
    Path | None, typer.Option(help="A second SOURCE: print the levels that differ, as `first → second`.")
]
Question = Annotated[
    str | None,
    typer.Option(metavar="QUESTION", help="Print the least budget of a level that gives a statistic its margin."),
]
Page = Annotated[Path | None, typer.Option(help="Write a page with sliders and charts; works offline.")]
Workbook = Annotated[Path | None, typer.Option(help="Write a workbook with live sums.")]


@dataclass(frozen=True)
class PlanOptions:
    """The parameters of SafeTab-P to vary."""

    level: Annotated[list[str] | None, typer.Option(help="`LEVEL=BUDGET`; may be repeated.")] = None
    exclude_level: Annotated[list[str] | None, typer.Option(help="A level that is not measured; may be repeated.")] = (
        None
    )
    total: Annotated[str | None, typer.Option(help="Scale the budgets to this sum of rho or epsilon.")] = None
    definition: Annotated[Definition | None, typer.Option(help="The measure of privacy.  [default: zcdp]")] = None
    gamma: Annotated[str | None, typer.Option(help="The share of step 1, between 0 and 1.  [default: 0.1]")] = None
    race_codes: Annotated[int | None, typer.Option(help="Race multiplicity, 1 to 8.  [default: 8]")] = None
    margin: Annotated[int | None, typer.Option(help="Target margin of error, in counts at 95%.")] = None
    relative_error: Annotated[
        str | None, typer.Option(help="Target margin as a share of the average count.  [default: 0.1]")
    ] = None
    chance: Annotated[
        str | None,
        typer.Option(help="Probability that a group of size 0 is suppressed, at least 0.5.  [default: 0.9999]"),
    ] = None
    delta: Annotated[str, typer.Option(help="Strictly between 0 and 1.")] = "1e-10"
    jurisdiction: Annotated[Jurisdiction | None, typer.Option(help="Of a configuration with both.")] = None

    @property
    def scale(self) -> Fraction | None:
        """The sum to which budgets are scaled, or None. Raises Refused."""
        return None if self.total is None else fraction(self.total, "total")

    def plan(self, source: Path | None) -> BudgetPlan:
        """Return the plan of a source, of options or of production, as the options change it. Raises Refused."""
        from flows.reports.tuning.plan import first_plan

        return self.changed(first_plan(source, self.level, self.definition, self.jurisdiction))

    def other(self, source: Path) -> BudgetPlan:
        """Return the plan of the second source of a comparison, with the same changes. Raises Refused."""
        from flows.reports.tuning.plan import first_plan

        return self.changed(first_plan(source, None, None, self.jurisdiction))

    def changed(self, plan: BudgetPlan) -> BudgetPlan:
        """Return a plan as the options change it. Raises Refused."""
        from flows.reports.tuning.plan import chance_of_zeros, targeted

        plan = replace(targeted(plan, self.margin, self.relative_error), delta=delta_of(self.delta))
        if self.gamma is not None:
            plan = replace(plan, gamma=share(self.gamma, "gamma"))
        if self.chance is not None:
            plan = replace(plan, chance=chance_of_zeros(self.chance))
        if self.race_codes is not None:
            plan = plan.with_multiplicity(self.race_codes)
        plan = plan.without(self.exclude_level or [])
        return plan if self.scale is None else plan.scaled(self.scale)


def tune(
    context: typer.Context,
    source: Source = None,
    *,
    options: PlanOptions,
    households: Households = False,
    against: Against = None,
    solve: Question = None,
    html: Page = None,
    xlsx: Workbook = None,
    form: FormatOption = Format.table,
) -> None:
    """What a choice of parameters of SafeTab-P gives, from public numbers alone: the SafeTEx tool of its paper.

    Population sizes from which total, age4, age9 and age23 meet a target error; margins of error; suppression of small
    groups and its bias; privacy loss as levels are switched on and off; margins over budgets. Without a source or
    levels: those of production (SafeTab-P, Table 7).

    For a config.json or a release of the S-DHC, or a declaration for das bottom-up: the noise of every query and what a
    run spends, at the sum --total (for a declaration 1 by default); with --margin, or --solve "renters in a county
    within 20", the least budget of each query. --households: for SafeTab-H, whose unit of privacy is a household.

    --solve has the least budget for a margin, and what else it moves: "a county's count of 500 within 10%", "total of a
    county, detailed within 20", or `das tune --solve "County, Detailed: total of 23 ages <= 20"`. Other statistics are
    "TotalOnly total", "step 1 total" and "count of step 2", which a count or total by itself is. Without a level it
    answers for each: whether its budget meets the margin already, and the release with this level alone changed.

    **Example:** `das tune --level "Nation, Detailed=2.134" --level "County, Detailed=.159" --race-codes 3`
    """
    if other := _other_system(source, options.scale, households=households):
        return _queries(context, other, options, solve, form)
    plan = options.plan(source)
    if against is not None:
        refuse(context, given(context).keys() & {"solve", "html", "xlsx"}, "--against compares two sets of parameters")
        return _compare(plan, options.other(against), form)
    from flows.reports.tuning.tuning import answers, tables

    answered = answers(plan)
    if html is not None:
        from flows.reports.tuning.page import page

        write_file(html, page(plan))
    if xlsx is not None:
        from flows.reports.tuning.workbook import workbook

        write_file(xlsx, workbook(plan, answered, tables(answered)))
    if solve is not None:
        return _solve(plan, solve, form)
    report(answered, tables(answered), form)


class OtherSystem(NamedTuple):
    """A system that is tuned by its queries. takes: its options in words; own: the options that only it has."""

    design: Callable[[], SystemQueries]
    takes: str
    own: set[str]


def _other_system(source: Path | None, scale: Fraction | None, *, households: bool) -> OtherSystem | None:
    """Return the system of a source by the contents of the file; None for SafeTab-P."""
    from flows.reports.tuning import queries
    from tasks.bottom_up.declared_histogram import is_declaration
    from tasks.s_dhc.budgets import is_of_s_dhc

    if households:
        return OtherSystem(lambda: queries.households(source), "--households takes SOURCE", {"households"})
    if source is not None and is_of_s_dhc(source):
        return OtherSystem(lambda: queries.s_dhc(source, scale), "a source of the S-DHC takes --total", {"total"})
    if source is not None and is_declaration(source):
        takes = "a declaration of das bottom-up takes --total, its epsilon"
        return OtherSystem(lambda: queries.bottom_up(source, scale or Fraction(1)), takes, {"total"})
    return None


def _queries(context: typer.Context, other: OtherSystem, options: PlanOptions, solve: str | None, form: Format) -> None:
    """Print the spend of a run of another system and the noise of its queries; refuse options that do not apply."""
    from flows.reports.tuning.queries import answers, asked_of, sentence, tables

    alone = f"{other.takes}, --margin or --solve, --delta, --format and --json alone"
    refuse(context, given(context).keys() - COMMON - other.own, alone)
    design, margin = other.design(), options.margin
    if solve is not None:
        refuse(context, given(context).keys() & {"margin"}, "--solve has its own margin")
        design, margin = asked_of(solve, design)
    answered = answers(design, margin, delta_of(options.delta))
    report(answered, tables(answered), form, "" if margin is None else sentence(answered, margin))


def _compare(first: BudgetPlan, second: BudgetPlan, form: Format) -> None:
    """Print the levels whose figures differ between two plans."""
    from flows.reports.tuning.tuning import answers, differences

    table = differences(answers(first), answers(second))
    report([dict(zip(table.columns, row, strict=True)) for row in table.rows], [table], form)


def _solve(plan: BudgetPlan, text: str, form: Format) -> None:
    """Print the question as understood, the least budget, and its effect on each level."""
    from flows.reports.tuning.solve import read_question, result, sentence, solve, table

    solved = solve(plan, read_question(text, plan))
    report(solved, [table(solved)], form, f"{solved['asked']}\n{result(solved)}\n{sentence(solved)}")
