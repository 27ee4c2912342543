"""`das bottom-up example`, `noise` and `curve`: an example table, and the effect of noise on counts, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.reports.figures import fraction
from flows.reports.terminal import Format, FormatOption, report, show
from privacy.bottom_up.mechanism import BottomUp, expected
from privacy.noise.margins import margin_of_error
from tasks.errors import Refused, refusing
from tasks.lifecycle.new_folder import check_empty
from tasks.releases.pages.text_table import TextTable

Epsilons = Annotated[list[str] | None, typer.Option("--epsilon", help="A budget, exact; may be repeated.")]
STANDARD = ("0.01", "0.05", "0.1", "0.25", "0.5", "1", "2", "4", "8")  # the epsilons of the slides
LARGEST_COUNT = 10**15  # the largest count that is exact as a float


def example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go; a new or empty folder.")],
    rows: Annotated[int, typer.Option(min=1, help="Records of the table.")] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the synthetic table.")] = 1960,
) -> None:
    """Make a synthetic table of counties by sex, group quarters and age, its declaration, and published state totals.

    **Example:** `das bottom-up example example/ --rows 100000`, then
    `das bottom-up run example/table.parquet example/declaration.toml out/ --epsilon 1 --calibrate example/totals.csv`
    """
    from tasks.bottom_up.example import make_example

    check_empty(folder)
    made = make_example(folder, rows, seed=seed)
    show(vars(made), lambda: "\n".join(f"{name}: {path}" for name, path in vars(made).items()))


def noise(
    epsilon: Epsilons = None,
    cells: Annotated[
        list[int] | None, typer.Option(min=1, max=10**12, help="Cells of a marginal; may be repeated.")
    ] = None,
    form: FormatOption = Format.table,
) -> None:
    """The noise of a cell and margins of error of marginals, at several epsilons; das tune has those of a declaration.

    **Example:** `das bottom-up noise --epsilon 0.5 --epsilon 1 --cells 2 --cells 100`
    """
    sizes = cells or [1, 2, 4, 10, 100]
    facts: list[dict[str, Any]] = []
    for value in _budgets(epsilon):
        law = BottomUp(value).law
        with refusing():
            margins = [{"cells": size, "margin": margin_of_error(law, size)} for size in sizes]
        facts.append({"epsilon": value, "deviation": law.variance() ** 0.5, "margins": margins})
    head = ["epsilon", "std. deviation", *(f"95% margin, {size} cells" for size in sizes)]
    rows = [
        [f"{float(row['epsilon']):g}", f"{row['deviation']:.6g}", *(str(each["margin"]) for each in row["margins"])]
        for row in facts
    ]
    table = TextTable("Two-tailed geometric noise of a cell, in counts; sensitivity 1", head, rows)
    report(facts, [table], form)


def curve(
    counts: Annotated[str, typer.Option(help="Counts of a table: `120,40,15,...`.")],
    epsilon: Epsilons = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve into this file: .svg, .png or .pdf.")] = None,
    form: FormatOption = Format.table,
) -> None:
    """The expected errors of released counts at several epsilons: L1, L2 and the accuracy curve, in closed form.

    A1 = 1 - sum|t-c| / sum t, A2 = 1 - sum(t-c)^2 / sum t^2 for true counts t and released counts c. The figures follow
    from the counts: if these are confidential, the figures are NOT PRIVATE.

    **Example:** `das bottom-up curve --counts 120,40,15,900,300,60,5,0,20,10 --plot curve.svg`
    """
    truth, epsilons = _counts(counts), _budgets(epsilon)
    with refusing():
        points = [{"epsilon": float(value), **expected(truth, float(value))._asdict()} for value in epsilons]
    if plot:
        from flows.reports.bottom_up_chart import draw_curve
        from tasks.releases.pages.charts import save

        save(lambda: draw_curve(epsilons, lambda value: expected(truth, value)), plot)
    rows = [
        [
            f"{float(value):g}",
            *(f"{point[name]:.5g}" for name in ("l1", "l2")),
            *(f"{point[name]:.5f}" for name in ("a1", "a2")),
        ]
        for value, point in zip(epsilons, points, strict=True)
    ]
    notes = [
        "NOT PRIVATE where the counts are confidential.",
        f"{len(truth):,} cells, expectations of counts neither calibrated nor clipped. L1 in records, L2 squared.",
        "A1 = 1 - sum|t-c| / sum t, A2 = 1 - sum(t-c)² / sum t². The slides call this a ROC curve; it shows "
        "accuracy over epsilon.",
    ]
    data = {"cells": len(truth), "notes": notes, "points": points}
    table = TextTable("Accuracy curve of the bottom-up mechanism", ["epsilon", "L1", "L2", "A1", "A2"], rows, notes)
    report(data, [table], form)


def _budgets(texts: Sequence[str] | None) -> list[Fraction]:
    """Return the typed budgets, by default those of the slides. Raises Refused."""
    return [fraction(text, "--epsilon") for text in texts or STANDARD]


def _counts(text: str) -> list[int]:
    """Return counts written as `120,40,15`. Raises Refused."""
    try:
        counts = [int(count) for count in text.split(",")]
    except ValueError:
        raise Refused(f"--counts are whole numbers separated by commas, not {text[:100]!r}") from None
    if min(counts) < 0:
        raise Refused("--counts are true counts and cannot be negative")
    if max(counts) > LARGEST_COUNT:
        raise Refused(f"--counts are at most {LARGEST_COUNT:,}, not {max(counts)}")
    return counts
