"""`das bottom-up noise`: the errors of cells and marginals in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import typer

from flows.reports.formats import Format, FormatOption, report
from flows.reports.terminal import Json, refusing
from tasks.pages.text_table import TextTable

Epsilons = Annotated[list[str] | None, typer.Option("--epsilon", help="A budget, exact; may be repeated.")]
STANDARD = ("0.01", "0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8")


def budgets(texts: Sequence[str] | None) -> list[Fraction]:
    """Return the budgets that were typed, the slides' where none was. Raises Refused."""
    from flows.reports.figures import fraction

    return [fraction(text, "--epsilon") for text in texts or STANDARD]


def short(value: Fraction) -> str:
    """Return a budget as tables show it."""
    return f"{float(value):g}"


def noise(
    epsilon: Epsilons = None,
    cells: Annotated[
        list[int] | None, typer.Option(min=1, max=10**12, help="Cells of a marginal; may be repeated.")
    ] = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """The noise of one cell and of marginals at several epsilons, in closed form; the margins of error are exact.

    **Example:** `das bottom-up noise --epsilon 0.5 --epsilon 1 --cells 2 --cells 100`
    """
    from privacy.analyses.geometric_moments import absolute_sum, moments
    from privacy.bottom_up.mechanism import BottomUp
    from privacy.noise.margins import margin_of_error

    sizes = cells or [1, 2, 4, 10, 100]
    facts: list[dict[str, Any]] = []
    for value in budgets(epsilon):
        mechanism = BottomUp(value)
        law = moments(float(value))
        with refusing():
            of_sums = [
                {"cells": m, "absolute": absolute_sum(float(value), m), "margin": margin_of_error(mechanism.law, m)}
                for m in sizes
            ]
        facts.append({"epsilon": value, **vars(law), "margins": of_sums})
    head = ["epsilon", "p", "P(0)", "E|N|", "Var N", "E N^4", *(f"95% margin, {m} cells" for m in sizes)]
    rows = [
        [short(row["epsilon"]), *(f"{row[name]:.6g}" for name in ("p", "zero", "absolute", "variance", "fourth"))]
        + [str(each["margin"]) for each in row["margins"]]
        for row in facts
    ]
    sums = [[short(row["epsilon"]), *(f"{each['absolute']:.5f}" for each in row["margins"])] for row in facts]
    tables = [
        TextTable("Two-tailed geometric noise of a cell, in counts; sensitivity 1", head, rows),
        TextTable("Expected absolute error of a marginal", ["epsilon", *(f"{m} cells" for m in sizes)], sums),
    ]
    report(facts, tables, form, as_json=as_json)
