"""`das ddhcb accuracy`: measure the errors of a configuration by repeated runs on synthetic data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.ddhcb.validate import INPUTS
from flows.commands.fields import Chosen, Settings, with_options
from flows.commands.options import ExactOptions
from flows.commands.safetab import measured
from flows.execution.safetab_settings import DetailedDhcbSettings
from flows.reports.formats import Format, report
from tasks.lifecycle.new_folder import check_empty
from tasks.pages.text_table import TextTable

STATEMENT = "NOT PRIVATE: errors against the exact counts of synthetic data. Never publish them."


@with_options
def accuracy(
    chosen: Annotated[Chosen, Settings(DetailedDhcbSettings, (*INPUTS, "coterminous", "estimates"))],
    place: Annotated[Path, typer.Argument(metavar="OUT", help="Where errors.csv goes, in OUT/us and OUT/pr.")],
    runs: Annotated[int, typer.Option(min=1, help="Independent runs, each with a secret of its own.")] = 10,
    *,
    options: ExactOptions,
) -> None:
    """Repeat a run on synthetic data and report its errors against the truth. NOT PRIVATE.

    By level, table, detail and cell: bias, root mean square error, coverage of the stated margin. With --estimates the
    same of these. Data that is not marked synthetic is refused, whoever asks.

    **Example:** `das ddhcb accuracy params/ data/ accuracy/ --totals dhc-a/us --runs 20`
    """
    from flows.execution.repetitions import measure_household_accuracy
    from tasks.detailed_dhcb.accuracy import report as summary
    from tasks.lifecycle.files import atomic_path

    check_empty(place)
    facts, tables = [], []
    measure = partial(measure_household_accuracy, runs=runs)
    for settings, errors in measured(DetailedDhcbSettings, chosen | {"out": str(place)}, options, measure):
        jurisdiction, found = settings.jurisdiction, summary(errors)
        with atomic_path(place / jurisdiction / "errors.csv") as temporary:
            found.to_csv(temporary, sep="|", index=False)
        totals = found[found["CELL"] == 0].drop(columns="CELL").round(3)
        facts.append(
            {"region": jurisdiction, "runs": runs, "report": place / jurisdiction, "totals": totals.to_dict("records")}
        )
        title = (
            f"{jurisdiction.upper()}, {runs} runs: errors of totals; all cells are in {place / jurisdiction}/errors.csv"
        )
        tables.append(
            TextTable(title, list(map(str, totals)), totals.astype(str).to_numpy().tolist(), [STATEMENT], words=4)
        )
    report({"NOT_PRIVATE": STATEMENT, "regions": facts}, tables, Format.table, as_json=options.as_json)
