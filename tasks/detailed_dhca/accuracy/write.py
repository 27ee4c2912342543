"""Write an accuracy report: errors.csv, workloads.csv, the Bureau's layout and one page. Each is marked NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from tasks.detailed_dhca.accuracy.bureau import MULTI, multi_run
from tasks.detailed_dhca.accuracy.charts import by_size, error_chart, gain_chart
from tasks.detailed_dhca.accuracy.report import OF_CLOSENESS, OF_SIZE, SHARES, STATEMENT, Report, in_words
from tasks.pages import render
from tasks.pages.dots import alone
from tasks.pages.text_table import TextTable

PAGE = "accuracy.html"


def write_report(out: Path, report: Report, about: Mapping[str, str], where: str) -> None:
    """Write the tables and the page into OUT; with estimates also the picture of what they buy, estimates.svg.

    `about` describes the run, `where` is what the page is about: its states.
    """
    bureau = out / "full_error_report"
    bureau.mkdir(parents=True)
    files = {"errors.csv": report.errors, "workloads.csv": report.workloads}
    for name, table in files.items():
        table.to_csv(out / name, index=False, float_format="%.6g")
    multi_run(report.accuracy).to_csv(bureau / MULTI, index=False)
    levels, *gains = report.tables()
    errors = report.errors.to_dict("records")
    sizes = by_size(report)
    estimates = gain_chart(report) if gains else None
    if estimates:
        (out / "estimates.svg").write_text(alone(estimates))
    page = render(
        "tasks.detailed_dhca.accuracy",
        PAGE,
        accuracy=report.accuracy,
        levels=levels,
        gains=gains,
        errors=TextTable.filled("Errors by size, table and kind of count", OF_SIZE, in_words(errors), words=6),
        closeness=TextTable.filled("How close counts are, by size", OF_CLOSENESS, in_words(errors), words=6),
        workloads=TextTable.filled("Tables by size", SHARES, in_words(report.workloads.to_dict("records")), words=2),
        about=about,
        where=where,
        errors_chart=error_chart(report),
        estimates=estimates,
        sizes=TextTable.filled("Below the state, by true size", {name: f"{{{name}}}" for name in sizes[0]}, sizes)
        if sizes
        else None,
        statement=STATEMENT,
        version=version("das-flows"),
    )
    (out / PAGE).write_text(page)
