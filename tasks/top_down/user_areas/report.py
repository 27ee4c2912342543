"""Write the files of estimates of areas: areas.csv, shares.csv, areas.html, covariances.csv; plan.csv for a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np

from privacy.noise.margins import Z95
from tasks.geography.blocks.area_names import UNASSIGNED
from tasks.geography.names import name_of_state, title_of_states
from tasks.lifecycle.new_folder import new_folder
from tasks.releases.datapackage import write_package
from tasks.releases.pages import number, render
from tasks.releases.pages.text_table import TextTable, as_csv
from tasks.releases.pages.words import count_title
from tasks.top_down.estimate.gls.tree import columns_of
from tasks.top_down.user_areas.area_estimates import AreaEstimates
from tasks.top_down.user_areas.area_tables import DESCRIPTION
from tasks.top_down.user_areas.bars import bound_bars, district_bars
from tasks.top_down.user_areas.deviations import LEVEL
from tasks.top_down.user_areas.hearing import (
    Sketch,
    answer,
    census_verdict,
    district_map,
    in_percent,
    labels_of,
    shown_bounds,
    verdict_table,
)

SHORT = ("total", "voting age")  # the counts shown for many areas
FEW = 12  # up to this many areas, the page shows every count
BOUNDS = (
    "The range is the largest deviation less the smallest. Of equal districts: the figure that noise alone would give "
    "the estimates, half of the time, if all districts had equal populations. A figure near it is no evidence that "
    "they differ. The bounds are for the counts before noise was added, rounded outwards. They hold with a probability "
    f"of at least {LEVEL:.0%} for all districts and all three figures together."
)
ANSWERS = (
    "Yes: both bounds of the range are at most the limit. No: both are above it. Not known: the limit is between them, "
    "so that the measurements do not show on which side of it the range was. This is usual for a plan that cuts block "
    "groups."
)
OUTSIDE = (
    "* A published figure outside its interval need not be a mistake. The interval is of the unbiased estimate from "
    "the measurements alone and misses about 1 count in 20. The published figure also uses that no count is "
    "below zero, which moves small counts up and large ones down."
)
RATIOS = (
    "The minority is everybody except those who are White alone and not Hispanic. Races are those of persons of one "
    "race, Hispanic persons included; Hispanic persons are of any race. There is no count here of a race alone or in "
    "combination. Intervals are of ratios of two estimates, by their standard errors and covariance (delta method)."
)


def write_files(
    out: Path, areas: AreaEstimates, counts: Sequence[str] = (), sketch: Sketch | None = None
) -> list[Path]:
    """Write the folder OUT, atomically, with these counts or all; return its files. sketch: as for `page`."""
    tables = {
        "areas.csv": areas.rows(counts),
        "plan.csv": _plan_rows(areas),
        "covariances.csv": _covariances(areas),
        "shares.csv": share_rows(areas),
    }
    with new_folder(out) as folder:
        for name, rows in tables.items():
            if rows:
                (folder / name).write_text(as_csv([*rows[0]], (row.values() for row in rows)), "utf-8")
        (folder / "areas.html").write_text(page(areas, counts, sketch), "utf-8")
        write_package(folder, DESCRIPTION, {"release": "Estimates of areas"}, [path.name for path in folder.iterdir()])
        names = [path.name for path in folder.iterdir()]
    return [out / name for name in sorted(names)]


def _covariances(areas: AreaEstimates) -> list[dict[str, Any]]:
    """Return a row for every two areas, and for each with itself; empty if they are too many."""
    if "persons" not in areas.estimated or areas.estimated["persons"].covariances.values.ndim < 3:
        return []
    columns, of = columns_of("persons", minority=True), areas.estimated["persons"].covariances.of
    values = {name: np.round(of(columns, name, name), 4) + 0.0 for name in SHORT}
    return [
        {"area": name, "other_area": areas.names[other]}
        | {count: float(value[one, other]) for count, value in values.items()}
        for one, name in enumerate(areas.names)
        for other in range(one, len(areas.names))
    ]


def _plan_rows(areas: AreaEstimates) -> list[dict[str, Any]]:
    """Return a row per district: its deviation from the ideal, with interval; empty without a plan."""
    if (plan := areas.plan) is None:
        return []
    published = areas.published.get("persons")
    return [
        {
            "district": name,
            "published": None if published is None else int(published[at, 0]),
            "published_deviation": None if plan.published is None else round(float(plan.published[at]), 3),
            "estimate": round(deviation + plan.ideal, 3),
            "deviation": round(deviation, 3),
            "standard_error": round(error, 3),
            "low_95": round(max(deviation - Z95 * error, -plan.ideal), 1),
            "high_95": round(deviation + Z95 * error, 1),
            "percent": round(100 * deviation / plan.ideal, 4),
            "percent_standard_error": round(100 * error / plan.ideal, 4),
        }
        for at, (name, deviation, error) in enumerate(
            zip(areas.districts, plan.deviation.tolist(), plan.error.tolist(), strict=True)
        )
    ]


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
        } | {
            "answer": answer(plan, areas.within),
            "districts": _plan_rows(areas),
            "bounds": bounds,
            "reading": f"{BOUNDS} {ANSWERS}",
        }
    if areas.shares:
        data["shares_of_voting_age"] = share_rows(areas)
    reading = [*areas.banners, *areas.reading, *([RATIOS] if areas.shares else [])]
    return data | {"notes": areas.notes, "reading": reading}


def _known(value: float, places: int) -> float | None:
    return None if np.isnan(value) else round(value, places)


# -- tables for the terminal and the page ----------------------------------------------------------------------------


def counts_table(areas: AreaEstimates, title: str, counts: Sequence[str] = ()) -> TextTable:
    """Return a table with a row per area and count, of these counts or of all."""
    columns = {
        "area": "{area}",
        "count": "{words}",
        **({"published": "{published}"} if areas.published else {}),
        "before noise, 95%": "{low_95:,} to {high_95:,}",
        "estimate": "{estimate:,.1f}",
        "standard error": "{standard_error:,.1f}",
        "blocks": "{blocks:,}",
        "whole groups": "{groups_whole:,}",
        "cut groups": "{groups_cut:,}",
    }
    rows = areas.rows(counts)
    for row in rows:
        row["published"] = _marked(row, ",")
    return TextTable.filled(title, columns, rows, notes=_outside(row["published"] for row in rows), words=2)


def _marked(row: Mapping[str, Any], form: str) -> str:
    """Return a published figure, with a star outside its interval; empty without one."""
    value, low, high = row["published"], row["low_95"], row["high_95"]
    if value is None:
        return ""
    return f"{value:{form}}" + "*" * (low is not None and not low <= value <= high)


def _outside(published: Iterable[str]) -> list[str]:
    return [OUTSIDE] if any(text.endswith("*") for text in published) else []


def plan_tables(areas: AreaEstimates) -> list[TextTable]:
    """Return the bounds of the deviations, and the deviation of each district; empty without a plan."""
    if (plan := areas.plan) is None:
        return []

    def shown(value: float) -> str:
        return f"{value:+,.0f} ({in_percent(value / plan.ideal)})"

    bounds = [
        [
            one.name,
            *([] if one.published is None else [shown(one.published)]),
            shown(one.estimate),
            f"{one.noise_alone:+,.0f}",
            f"{floor(one.low):+,} to {ceil(one.high):+,} ({' to '.join(shown_bounds(plan, one))})",
        ]
        for one in plan.bounds
    ]
    rows, of_published = _plan_rows(areas), {}
    if plan.published is not None:
        for row in rows:
            row["of_ideal"] = 100 * row["published_deviation"] / plan.ideal
        of_published = {
            "persons, published": "{published:,}",
            "deviation, published": "{published_deviation:+,.0f}",
            "in %": "{of_ideal:+.2f}",
        }
    columns = {
        "district": "{district}",
        **of_published,
        "deviation, estimate": "{deviation:+,.0f}",
        "its 95%": "{low_95:+,.0f} to {high_95:+,.0f}",
    }
    heads = ["deviation", *(["published"] if of_published else []), "of the estimates", "of equal districts"]
    title = f"The plan: {len(areas.districts)} districts, ideal {number(round(plan.ideal, 1))} persons"
    return [
        TextTable(title, [*heads, f"bounds, {LEVEL:.0%}"], bounds, [BOUNDS, ANSWERS]),
        TextTable.filled("Deviation of each district from the ideal", columns, rows),
    ]


def share_rows(areas: AreaEstimates) -> list[dict[str, Any]]:
    """Return a row per area and group (minority, Hispanics, a race): its share of the voting age population, %."""
    rows, published = [], areas.published.get("persons")
    names = areas.estimated["persons"].names if areas.shares else ()
    for at, area in enumerate(areas.shown):
        for name, (share, error) in areas.shares.items():
            shown = None
            if published is not None and (adults := int(published[at, names.index("voting age")])):
                shown = round(100 * int(published[at, names.index(name)]) / adults, 3)
            ends = [_known(100 * min(max(float(share[at] + z * error[at]), 0.0), 1.0), 3) for z in (-Z95, Z95)]
            rows.append(
                {
                    "area": area,
                    "group": name.partition(": ")[2],
                    "words": _without_age(name),
                    "published": shown,
                    "estimate": _known(100 * float(share[at]), 3),
                    "standard_error": _known(100 * float(error[at]), 3),
                    "low_95": ends[0],
                    "high_95": ends[1],
                }
            )
    return rows


def shares_table(areas: AreaEstimates) -> TextTable:
    """Return the share of each race and of Hispanics in the voting age population, by area, with its interval."""
    cells: dict[str, list[str]] = {name: [] for name in areas.shown}
    published = []
    for row in share_rows(areas):
        low, high = row["low_95"], row["high_95"]
        places = 1 if low is None or high >= 10 else 2
        interval = (
            "unknown" if low is None else f"{low:.{places}f} to {high:.{places}f}".replace(" ", "\N{NO-BREAK SPACE}")
        )
        published.append(_marked(row, f".{places}f"))
        cells[row["area"]].append(f"{published[-1]} ({interval})" if published[-1] else interval)
    of_published = "published, and in brackets " if "persons" in areas.published else ""
    title = f"Share of the voting age population, per cent: {of_published}where the share before noise is, 95%"
    title += " (races include Hispanic persons)"
    rows, notes = [[name, *row] for name, row in cells.items()], [*_outside(published), RATIOS]
    return TextTable(title, ["area", *map(_without_age, areas.shares)], rows, notes)


def _without_age(name: str) -> str:
    """Return the words of a group of voting age: `Black alone` of `voting age by race: black`."""
    return count_title(name).removesuffix(", of voting age")


def terminal_tables(
    areas: AreaEstimates, counts: Sequence[str], out: Path | None, *, mapped: bool = False
) -> list[TextTable]:
    """Return the tables for a terminal; mapped: whether the page in OUT has a map of a plan's districts.

    For a plan: the answer, the districts, and the chosen counts. Otherwise all counts of a single area, or the main
    ones of several.
    """
    several = len(areas.names) > 1 + (areas.names[-1] == UNASSIGNED)
    main = SHORT if several and "persons" in areas.estimated else ()
    place = f"{'Map, shares' if mapped else 'Shares'}, counts and how to read them" if areas.plan else "All counts"
    drawn = "" if mapped or not areas.plan else "; with --boundaries, a map of the districts"
    rest = [f"{place}: {out / 'areas.html' if out else 'name a folder OUT, or --json'}{drawn}."]
    notes = [*(f"note: {note}" for note in areas.notes), *areas.banners]
    table = counts_table(areas, f"Areas, from {areas.source}", counts or main)
    if areas.plan:
        verdict = verdict_table(areas.plan, areas.within)
        verdict = replace(verdict, notes=[*verdict.notes, *notes, *rest])
        return [verdict, plan_tables(areas)[1], *([table] if counts else [])]
    return [replace(table, notes=[*table.notes, *rest[: bool(main and not counts)], *notes, *areas.reading])]


def rows_table(areas: AreaEstimates, counts: Sequence[str]) -> TextTable:
    """Return the rows of areas.csv as one table of text."""
    rows = areas.rows(counts)
    cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
    return TextTable("", [*rows[0]], cells, words=len(rows[0]))


def _with_minus(table: TextTable) -> TextTable:
    """Return a table whose figures have a minus sign as wide as a plus."""
    rows = [[*row[: table.words], *(cell.replace("-", "−") for cell in row[table.words :])] for row in table.rows]
    return replace(table, rows=rows)


def page(areas: AreaEstimates, counts: Sequence[str] = (), sketch: Sketch | None = None) -> str:
    """Return areas.html; sketch: where a plan's districts are."""
    several, chosen = len(areas.names) > FEW, counts or areas.counts
    main = [name for name in chosen if name in SHORT] if several else []
    groups = [(name, _with_minus(counts_table(areas, count_title(name), [name]))) for name in main or chosen]
    if not several:
        groups = [("", _with_minus(counts_table(areas, "All counts", chosen)))]
    return render(
        "tasks.top_down.user_areas",
        "areas.html",
        areas=areas,
        where=title_of_states([*map(name_of_state, areas.states)]),
        groups=groups,
        plan=list(map(_with_minus, _numbered(plan_tables(areas), areas.districts))),
        **_hearing(areas, sketch),
        opening=_opening(areas),
        shares=shares_table(areas) if areas.shares else None,
        several=several,
    )


def _numbered(plan: list[TextTable], districts: Sequence[str]) -> list[TextTable]:
    """Return the tables of a plan, the districts with the numbers that the map has for long names."""
    labels = labels_of(districts)
    if not plan or labels == [*districts]:
        return plan
    bounds, table = plan
    rows = [[f"{label}. {name}", *row] for label, (name, *row) in zip(labels, table.rows, strict=True)]
    return [bounds, replace(table, rows=rows)]


def _opening(areas: AreaEstimates) -> list[str]:
    """Return the opening sentences of a page: a plan's answer, why a plan is not judged, or a single area's count."""
    if areas.plan:
        return answer(areas.plan, areas.within)
    if areas.unjudged or len(areas.shown) > 1 or "persons" not in areas.estimated:
        return [areas.unjudged] if areas.unjudged else []
    row = areas.rows(["total"])[0]
    shown = "" if row["published"] is None else f"{row['published']:,} persons by the published counts. "
    between = f"{row['low_95']:,} and {row['high_95']:,}"
    said = f"{row['area']}: {shown}The count before noise was added is between {between}, with a probability of 95 %."
    return [said]


def _hearing(areas: AreaEstimates, sketch: Sketch | None) -> dict[str, Any]:
    """Return the opening of a plan's page."""
    if (plan := areas.plan) is None:
        return {}
    return {
        "ideal": round(plan.ideal, 1),
        "asked": f"{100 * areas.within:g} %",
        "bars": [bound_bars(plan, areas.within), district_bars(plan, areas.within)],
        "map": sketch and district_map(areas.districts, plan, areas.within, sketch),
        "numbered": labels_of(areas.districts) != [*areas.districts],
        "shapes": bool(sketch and sketch.rings),
        "band": f"{50 * areas.within:g} %",
        "outside": bool((np.abs(plan.shown) > areas.within / 2 * plan.ideal).any()),
    }
