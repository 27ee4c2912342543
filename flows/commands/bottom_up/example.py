"""`das bottom-up example`: a synthetic table to try the mechanism on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.reports.terminal import Json, show
from tasks.lifecycle.new_folder import check_empty


def example(
    folder: Annotated[Path, typer.Argument(help="Where the files go; a new or empty folder.")],
    rows: Annotated[int, typer.Option(min=1, help="Records of the table.")] = 1_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the synthetic table.")] = 1960,
    as_json: Json = False,
) -> None:
    """Make a synthetic table of counties by sex by group quarters by age, with its domain and published state totals.

    **Example:** `das bottom-up example example/ --rows 100000`, then
    `das bottom-up run example/table.parquet example/domain.json out/ --epsilon 1 --calibrate example/totals.csv`
    """
    from tasks.bottom_up.example import make_example

    check_empty(folder)
    made = make_example(folder, rows, seed=seed)
    show(vars(made), lambda: "\n".join(f"{name}: {path}" for name, path in vars(made).items()), as_json=as_json)
