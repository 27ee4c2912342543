"""The files of an answer: areas.csv, .parquet, .json and .html, covariances.csv; of a plan also plan.csv."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.inputs.blocks.area_file import UNASSIGNED
from tasks.inputs.names import name_of_state, title_of_states
from tasks.lifecycle.new_folder import new_folder
from tasks.pages import number, render
from tasks.pages.csv_text import as_csv
from tasks.pages.text_table import TextTable
from tasks.pages.words import count_title
from tasks.top_down.estimate.gls.margin_tables import columns_of
from tasks.top_down.user_areas.answer import Answer
from tasks.top_down.user_areas.deviations import LEVEL
from tasks.top_down.user_areas.intervals import Z95

SHORT = ("total", "voting age")  # counts that are shown of many areas
FEW = 12  # areas of which the page shows every count
BOUNDS = (
    "The range is the largest deviation less the smallest. Noise alone: what the figure would be, half of the time, if "
    "all districts were equal: a range of the estimates near it tells nothing. The bounds are for the census counts. "
    f"They hold with a probability of at least {LEVEL:.0%} for all districts and all three figures together."
)
RATIOS = (
    "Shares are ratios of two estimates. Their standard errors follow from both and their covariance (delta "
    "method), and hold where the standard error of the population of voting age is small beside it."
)


def write_files(out: Path, answer: Answer) -> list[Path]:
    """Write the folder OUT, whole or not at all; return its files."""
    with new_folder(out) as folder:
        rows = answer.rows()
        (folder / "areas.csv").write_text(as_csv([*rows[0]], (row.values() for row in rows)), "utf-8")
        pq.write_table(
            pa.Table.from_pylist(rows, schema=_schema(rows[0])), folder / "areas.parquet", compression="zstd"
        )
        (folder / "areas.json").write_text(json.dumps(as_data(answer), indent=1) + "\n")
        if answer.plan:
            plan = _plan_rows(answer)
            (folder / "plan.csv").write_text(as_csv([*plan[0]], (row.values() for row in plan)), "utf-8")
        if "persons" in answer.estimated and answer.estimated["persons"].covariances.values.ndim == 3:
            between = as_csv(("area", "other", *SHORT), _covariances(answer))
            (folder / "covariances.csv").write_text(between, "utf-8")
        (folder / "areas.html").write_text(page(answer))
        names = [path.name for path in folder.iterdir()]
    return [out / name for name in sorted(names)]


def _schema(row: dict[str, Any]) -> pa.Schema:
    kinds = {"area": pa.string(), "count": pa.string(), "estimate": pa.float64(), "standard_error": pa.float64()}
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in row])


def _covariances(answer: Answer) -> Iterator[tuple[Any, ...]]:
    columns, of = columns_of("persons"), answer.estimated["persons"].covariances.of
    values = [np.round(of(columns, name, name), 4) + 0.0 for name in SHORT]
    for one, name in enumerate(answer.names):
        for other in range(one, len(answer.names)):
            yield name, answer.names[other], *(float(value[one, other]) for value in values)


def _plan_rows(answer: Answer) -> list[dict[str, Any]]:
    """Return a row a district: its deviation from the ideal, with interval."""
    plan = answer.plan
    assert plan is not None
    rows = []
    for at, name in enumerate(answer.names):
        deviation, error = float(plan.deviation[at]), float(plan.error[at])
        rows.append(
            {
                "district": name,
                "published": None if plan.published is None else round(float(plan.published[at]), 3),
                "deviation": round(deviation, 3),
                "standard_error": round(error, 3),
                "low_95": round(max(deviation - Z95 * error, -plan.ideal), 1),
                "high_95": round(deviation + Z95 * error, 1),
                "percent": round(100 * deviation / plan.ideal, 4),
                "percent_standard_error": round(100 * error / plan.ideal, 4),
            }
        )
    return rows


def as_data(answer: Answer) -> dict[str, Any]:
    """Return the answer as one JSON document."""
    plan = answer.plan
    data: dict[str, Any] = {"source": answer.source, "states": answer.states, "areas": answer.rows()}
    if plan:
        bounds = {
            one.name: {
                "published": None if one.published is None else round(one.published, 3),
                "estimate": round(one.estimate, 1),
                "noise_alone": round(one.noise_alone, 1),
                "low_95": round(one.low, 1),
                "high_95": round(one.high, 1),
            }
            for one in plan.bounds
        }
        data["plan"] = {"ideal": plan.ideal, "districts": _plan_rows(answer), "bounds": bounds, "reading": BOUNDS}
    if answer.shares:
        data["shares_of_voting_age"] = [
            {"area": name, "race": race, "share": _known(share[at]), "standard_error": _known(error[at])}
            for at, name in enumerate(answer.names)
            for race, (share, error) in answer.shares.items()
        ]
    reading = [*answer.banners, *answer.reading, *([RATIOS] if answer.shares else [])]
    return data | {"notes": answer.notes, "reading": reading}


def _known(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 5)


# -- tables for the terminal and the page ----------------------------------------------------------------------------


def counts_table(answer: Answer, title: str) -> TextTable:
    """Return a table with a row an area and count."""
    columns = {
        "area": "{area}",
        "count": "{count}",
        "blocks": "{blocks:,}",
        "whole groups": "{groups_whole:,}",
        "cut groups": "{groups_cut:,}",
        "published": "{shown}",
        "estimate": "{estimate:,.1f}",
        "standard error": "{standard_error:,.1f}",
        "90%": "{low_90:,} to {high_90:,}",
        "95%": "{low_95:,} to {high_95:,}",
    }
    rows = [{**row, "shown": "" if row["published"] is None else f"{row['published']:,}"} for row in answer.rows()]
    return TextTable.filled(title, columns, rows, words=2).without_empty(["published"])


def plan_tables(answer: Answer) -> list[TextTable]:
    """Return bounds of the deviations, and the deviation of each district; none where there is no plan."""
    plan = answer.plan
    if plan is None:
        return []

    def shown(value: float) -> str:
        return f"{value:+,.0f} ({value / plan.ideal:+.2%})"

    rows = [
        [
            one.name,
            "" if one.published is None else shown(one.published),
            shown(one.estimate),
            f"{one.noise_alone:+,.0f}",
            f"{one.low:+,.0f} to {one.high:+,.0f} ({one.low / plan.ideal:+.2%} to {one.high / plan.ideal:+.2%})",
        ]
        for one in plan.bounds
    ]
    heads = ["deviation", "published", "of the estimates", "noise alone", f"bounds, {LEVEL:.0%}"]
    title = f"The plan: {len(answer.names)} districts, ideal {number(round(plan.ideal, 1))} persons"
    districts = TextTable.filled(
        "Deviation of each district from the ideal",
        {
            "district": "{district}",
            "published": "{shown}",
            "deviation": "{deviation:+,.0f}",
            "standard error": "{standard_error:,.1f}",
            "95%": "{low_95:+,.0f} to {high_95:+,.0f}",
            "percent": "{percent:+.2f}",
            "standard error, percent": "{percent_standard_error:.2g}",
        },
        [
            {**row, "shown": "" if row["published"] is None else f"{row['published']:+,.0f}"}
            for row in _plan_rows(answer)
        ],
    )
    tables = (TextTable(title, heads, rows, [BOUNDS]), districts)
    return [table.without_empty(["published"]) for table in tables]


def shares_table(answer: Answer) -> TextTable:
    """Return the share of each race in the population of voting age, by area."""
    rows = []
    for at, name in enumerate(answer.names):
        cells = [
            "unknown" if np.isnan(share[at]) else _with_error(100 * float(share[at]), 100 * float(error[at]))
            for share, error in answer.shares.values()
        ]
        rows.append([name, *cells])
    title = "Share of the voting age population, per cent, ± one standard error"
    return TextTable(title, ["area", *answer.shares], rows, [RATIOS])


def _with_error(value: float, error: float) -> str:
    """Return a figure and its standard error at the decimals, one to three, that show the first digit of the error."""
    decimals = min(max(1, -floor(log10(error))), 3) if error > 0 else 1
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def terminal_tables(answer: Answer, counts: Sequence[str]) -> list[TextTable]:
    """Return the tables that a terminal shows: every count of a single area, of several the main ones or those "
    "chosen."""
    several = len(answer.names) > 1 + (answer.names[-1] == UNASSIGNED)
    shown = answer.only(counts or SHORT) if counts or (several and "persons" in answer.estimated) else answer
    table = counts_table(shown, f"Areas, from {answer.source}")
    notes = [*(f"note: {note}" for note in answer.notes), *answer.banners, *answer.reading]
    if shown is not answer and not counts:
        notes.insert(0, "All counts are in OUT, or by --count and --json.")
    return [TextTable(table.title, table.columns, table.rows, notes, table.words), *plan_tables(answer)[:1]]


def _with_minus(table: TextTable) -> TextTable:
    """Return a table whose figures have a minus sign as wide as a plus."""
    rows = [[*row[: table.words], *(cell.replace("-", "−") for cell in row[table.words :])] for row in table.rows]
    return replace(table, rows=rows)


def page(answer: Answer) -> str:
    """Return areas.html."""
    several = len(answer.names) > FEW
    main = [name for found in answer.estimated.values() for name in found.names if name in SHORT]
    shown = answer.only(main) if several and main else answer
    groups = [
        (name, _with_minus(counts_table(shown.only([name]), name)))
        for found in shown.estimated.values()
        for name in found.names
    ]
    if not several:
        table = _with_minus(counts_table(answer, "All counts"))
        groups = [("", replace(table, rows=[[area, count_title(count), *row] for area, count, *row in table.rows]))]
    return render(
        "tasks.top_down.user_areas",
        "areas.html",
        answer=answer,
        where=title_of_states([*map(name_of_state, answer.states)]),
        groups=groups,
        plan=list(map(_with_minus, plan_tables(answer))),
        shares=shares_table(answer) if answer.shares else None,
        several=several,
    )
