"""The files of estimates of areas: areas.csv, areas.html, covariances.csv; of a plan also plan.csv."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import floor, log10
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from spine.geography import FloatArray
from tasks.inputs.blocks.area_file import UNASSIGNED
from tasks.inputs.names import name_of_state, title_of_states
from tasks.lifecycle.datapackage import write_package
from tasks.lifecycle.new_folder import new_folder
from tasks.pages import number, render
from tasks.pages.csv_text import as_csv
from tasks.pages.text_table import TextTable
from tasks.pages.words import count_title
from tasks.top_down.estimate.gls.margin_tables import columns_of
from tasks.top_down.user_areas.area_estimates import AreaEstimates
from tasks.top_down.user_areas.description import DESCRIPTION
from tasks.top_down.user_areas.deviations import LEVEL
from tasks.top_down.user_areas.hearing import answer, census_verdict, deviation_chart, sketch_map, verdict_table
from tasks.top_down.user_areas.intervals import Z95

Sketch: TypeAlias = tuple[FloatArray, FloatArray]
SHORT = ("total", "voting age")  # counts that are shown of many areas
FEW = 12  # areas of which the page shows every count
BOUNDS = (
    "The range is the largest deviation less the smallest. Noise alone: what the figure would be, half of the time, if "
    "all districts were equal: a range of the estimates near it tells nothing. The bounds are for the counts before "
    f"noise. They hold with a probability of at least {LEVEL:.0%} for all districts and all three figures together."
)
RATIOS = (
    "Shares are ratios of two estimates. Their standard errors follow from both and their covariance (delta "
    "method), and hold where the standard error of the population of voting age is small compared with it."
)


def write_files(
    out: Path, areas: AreaEstimates, counts: Sequence[str] = (), sketch: Sketch | None = None
) -> list[Path]:
    """Write the folder OUT, whole or not at all, of these counts or all; return its files. sketch: as for `page`."""
    with new_folder(out) as folder:
        rows = areas.rows(counts)
        (folder / "areas.csv").write_text(as_csv([*rows[0]], (row.values() for row in rows)), "utf-8")
        if areas.plan:
            plan = _plan_rows(areas)
            (folder / "plan.csv").write_text(as_csv([*plan[0]], (row.values() for row in plan)), "utf-8")
        if "persons" in areas.estimated and areas.estimated["persons"].covariances.values.ndim == 3:
            between = as_csv(("area", "other", *SHORT), _covariances(areas))
            (folder / "covariances.csv").write_text(between, "utf-8")
        (folder / "areas.html").write_text(page(areas, counts, sketch))
        write_package(folder, DESCRIPTION, {"release": "Estimates of areas"}, [path.name for path in folder.iterdir()])
        names = [path.name for path in folder.iterdir()]
    return [out / name for name in sorted(names)]


def _covariances(areas: AreaEstimates) -> Iterator[tuple[Any, ...]]:
    columns, of = columns_of("persons"), areas.estimated["persons"].covariances.of
    values = [np.round(of(columns, name, name), 4) + 0.0 for name in SHORT]
    for one, name in enumerate(areas.names):
        for other in range(one, len(areas.names)):
            yield name, areas.names[other], *(float(value[one, other]) for value in values)


def _plan_rows(areas: AreaEstimates) -> list[dict[str, Any]]:
    """Return a row a district: its deviation from the ideal, with interval."""
    plan = areas.plan
    assert plan is not None
    rows = []
    for at, name in enumerate(areas.districts):
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


def as_data(areas: AreaEstimates, counts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the estimates of these counts, or of all, as one JSON document."""
    plan = areas.plan
    data: dict[str, Any] = {"source": areas.source, "states": areas.states, "areas": areas.rows(counts)}
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
        data["plan"] = {
            "ideal": plan.ideal,
            "within": areas.within,
            "census_within": census_verdict(plan, areas.within),
        } | {"answer": answer(plan, areas.within), "districts": _plan_rows(areas), "bounds": bounds, "reading": BOUNDS}
    if areas.shares:
        data["shares_of_voting_age"] = [
            {"area": name, "race": race, "share": _known(share[at]), "standard_error": _known(error[at])}
            for at, name in enumerate(areas.names)
            for race, (share, error) in areas.shares.items()
        ]
    reading = [*areas.banners, *areas.reading, *([RATIOS] if areas.shares else [])]
    return data | {"notes": areas.notes, "reading": reading}


def _known(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 5)


# -- tables for the terminal and the page ----------------------------------------------------------------------------


def counts_table(areas: AreaEstimates, title: str, counts: Sequence[str] = ()) -> TextTable:
    """Return a table with a row an area and count, of these counts or all."""
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
    rows = [{**row, "shown": "" if row["published"] is None else f"{row['published']:,}"} for row in areas.rows(counts)]
    return TextTable.filled(title, columns, rows, words=2).without_empty(["published"])


def plan_tables(areas: AreaEstimates) -> list[TextTable]:
    """Return bounds of the deviations, and the deviation of each district; none where there is no plan."""
    plan = areas.plan
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
    title = f"The plan: {len(areas.districts)} districts, ideal {number(round(plan.ideal, 1))} persons"
    districts = TextTable.filled(
        "Deviation of each district from the ideal",
        {
            "district": "{district}",
            "published": "{shown}",
            "published, %": "{shown_percent}",
            "estimate": "{deviation:+,.0f}",
            "estimate, %": "{percent:+.2f}",
            "95%": "{low_95:+,.0f} to {high_95:+,.0f}",
        },
        [
            {**row, "shown": "", "shown_percent": ""}
            if row["published"] is None
            else {
                **row,
                "shown": f"{row['published']:+,.0f}",
                "shown_percent": f"{100 * row['published'] / plan.ideal:+.2f}",
            }
            for row in _plan_rows(areas)
        ],
    )
    tables = (TextTable(title, heads, rows, [BOUNDS]), districts)
    return [table.without_empty(["published", "published, %"]) for table in tables]


def shares_table(areas: AreaEstimates) -> TextTable:
    """Return the share of each race in the population of voting age, by area."""
    rows = []
    for at, name in enumerate(areas.names):
        cells = [
            "unknown" if np.isnan(share[at]) else _with_error(100 * float(share[at]), 100 * float(error[at]))
            for share, error in areas.shares.values()
        ]
        rows.append([name, *cells])
    title = "Share of the voting age population, per cent, ± one standard error"
    return TextTable(title, ["area", *areas.shares], rows, [RATIOS])


def _with_error(value: float, error: float) -> str:
    """Return a figure and its standard error at the decimals, one to three, that show the first digit of the error."""
    decimals = min(max(1, -floor(log10(error))), 3) if error > 0 else 1
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def terminal_tables(areas: AreaEstimates, counts: Sequence[str], out: Path | None) -> list[TextTable]:
    """Return the tables that a terminal shows: of a plan the answer, and the counts that were chosen; else all counts
    of a single area, and of several the main ones.
    """
    several = len(areas.names) > 1 + (areas.names[-1] == UNASSIGNED)
    main = SHORT if several and "persons" in areas.estimated else ()
    place = "Districts, counts and how to read them" if areas.plan else "All counts"
    rest = [f"{place}: {out / 'areas.html' if out else 'name a folder OUT, or --json'}."]
    notes = [*(f"note: {note}" for note in areas.notes), *areas.banners]
    table = counts_table(areas, f"Areas, from {areas.source}", counts or main)
    if areas.plan:
        verdict = verdict_table(areas.plan, areas.within)
        verdict = replace(verdict, notes=[*verdict.notes, *notes, *rest])
        return [verdict, table] if counts else [verdict]
    return [replace(table, notes=[*rest[: bool(main and not counts)], *notes, *areas.reading])]


def _with_minus(table: TextTable) -> TextTable:
    """Return a table whose figures have a minus sign as wide as a plus."""
    rows = [[*row[: table.words], *(cell.replace("-", "−") for cell in row[table.words :])] for row in table.rows]
    return replace(table, rows=rows)


def page(areas: AreaEstimates, counts: Sequence[str] = (), sketch: Sketch | None = None) -> str:
    """Return areas.html; sketch: points of tracts and of a plan's districts, for a map (`tract_points`)."""
    several, chosen = len(areas.names) > FEW, counts or areas.counts
    main = [name for name in chosen if name in SHORT] if several else []
    groups = [(name, _with_minus(counts_table(areas, name, [name]))) for name in main or chosen]
    if not several:
        table = _with_minus(counts_table(areas, "All counts", chosen))
        groups = [("", replace(table, rows=[[area, count_title(count), *row] for area, count, *row in table.rows]))]
    return render(
        "tasks.top_down.user_areas",
        "areas.html",
        areas=areas,
        where=title_of_states([*map(name_of_state, areas.states)]),
        groups=groups,
        plan=list(map(_with_minus, plan_tables(areas))),
        **_hearing(areas, sketch),
        shares=shares_table(areas) if areas.shares else None,
        several=several,
    )


def _hearing(areas: AreaEstimates, sketch: Sketch | None) -> dict[str, Any]:
    """Return what a page of a plan opens with."""
    if (plan := areas.plan) is None:
        return {}
    return {
        "answer": answer(plan, areas.within),
        "ideal": round(plan.ideal, 1),
        "asked": f"{100 * areas.within:g} %",
        "chart": deviation_chart(areas.districts, plan, areas.within),
        "map": sketch and sketch_map(areas.districts, plan, areas.within, *sketch),
        "band": f"{50 * areas.within:g} %",
        "outside": bool((np.abs(plan.shown) > areas.within / 2 * plan.ideal).any()),
    }
