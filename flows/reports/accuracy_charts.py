"""Charts of an accuracy report: a panel for each population group level, with size classes along the axis.

For runs with estimates, two more charts compare them with the counts: by size, and over all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tasks.detailed_dhca.accuracy.errors import COUNT, TOTAL
from tasks.detailed_dhca.accuracy.report import ALL, COUNT_OF, OF, TABLES, WORKLOADS, Report
from tasks.detailed_dhca.details import TOTAL_ONLY
from tasks.pages.charts import BLUE, INK, ORANGE, picture
from tasks.population_groups.levels import ITERATION_LEVEL_NAMES, NATION_STATE, Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = dict(zip(WORKLOADS, (BLUE, "#2f9e6b", ORANGE, "#c8557a", "#9b6fd0"), strict=True))
MARKERS = dict(zip(WORKLOADS, "osD^v", strict=True))
SUPPRESSED = "#7d8590"
SIZE_AXIS = "true size of the group, up to (persons)"
Z = 1.96


def draw_charts(report: Report) -> dict[str, str]:
    """Return the charts of a report as SVG: errors, coverage, bias, workloads; with estimates also gains and totals."""
    counts = report.errors[report.errors["OF"] == OF[COUNT]]
    drawn: dict[str, Callable[[], Figure]] = {
        "errors": partial(_by_size, counts, "95% of errors within\n± (persons)", _draw_errors),
        "coverage": partial(_by_size, counts, "counts within the\nstated margin (%)", _draw_coverage),
        "bias": partial(_by_size, counts, "mean of published − true\n(persons)", _draw_bias),
        "workloads": partial(_by_size, report.workloads, "share of the groups (%)", _draw_workloads),
    }
    gains = report.gains()
    if len(gains):
        totals = report.errors[report.errors["COUNT_OF"] == COUNT_OF[TOTAL]]
        drawn["gains"] = partial(_draw_gains, gains[gains["COUNT_OF"] == COUNT_OF[TOTAL]])
        drawn["totals"] = partial(_by_size, totals, "root mean square error\n(persons)", _draw_totals)
    return {name: picture(chart)() for name, chart in drawn.items()}


def _draw_gains(gains: pd.DataFrame) -> Figure:
    """Draw one line per kind of level and table: the error of its totals as counts and as estimates."""
    from matplotlib import pyplot as plt

    rows = _by_kind(gains)
    figure, axis = plt.subplots(figsize=(8.5, 0.3 * len(rows) + 1.3))
    y = -np.arange(len(rows))
    # Few runs can be exact by chance; 0 has no place on a logarithmic axis.
    count, estimate = (np.maximum(rows[name].to_numpy(), 0.1) for name in ("RMSE_COUNT", "RMSE_ESTIMATE"))
    axis.hlines(y, estimate, count, color=INK, lw=1.2, alpha=0.5)
    axis.plot(count, y, "o", color=ORANGE, ms=7, label="count, as SafeTab-P publishes it")
    axis.plot(estimate, y, "o", color=BLUE, ms=7, label="estimate, at the same privacy loss")
    for place, above, gain in zip(y, np.maximum(count, estimate), 1 - estimate / count, strict=True):
        less = f"{-100 * gain:+.0f}%".replace("-", "−")
        axis.annotate(less, (above, place), (8, 0), textcoords="offset points", va="center")
    axis.set_yticks(y, rows.index.to_list())
    axis.set_ylim(y.min() - 0.7, 0.7)
    axis.set_xscale("log")
    axis.set_xlim(estimate.min() / 1.3, count.max() * 1.5)
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if estimate.min() / 1.3 < tick < count.max() * 1.5]
    axis.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
    axis.set_xticks([], minor=True)
    axis.set_xlabel("root mean square error of a published total (persons, log scale)")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _by_kind(gains: pd.DataFrame) -> pd.DataFrame:
    """Return the root mean square errors over the levels of a granularity and iteration level, by kind and table."""
    rows = gains[gains["WORKLOAD"] != WORKLOADS[TOTAL_ONLY]]
    where = rows["REGION_TYPE"].isin(NATION_STATE).map({True: "Nation and state", False: "Below state"})
    tables = {name: f"totals of {words}" for name, words in TABLES.items()} | {WORKLOADS[TOTAL]: "single totals"}
    kind = where + ", " + rows["ITERATION_LEVEL"].map(ITERATION_LEVEL_NAMES) + ": " + rows["WORKLOAD"].map(tables)
    squares = {column: rows[f"RMSE_{column}"] ** 2 * rows[f"COUNTS_{column}"] for column in ("COUNT", "ESTIMATE")}
    sums = rows.assign(COUNT=squares["COUNT"], ESTIMATE=squares["ESTIMATE"], kind=kind).groupby("kind")
    order = rows.assign(kind=kind, where=where, workload=rows["WORKLOAD"].map(WORKLOADS.index))
    by = {"ITERATION_LEVEL": False, "where": False, "workload": True}
    names = order.sort_values([*by], ascending=[*by.values()])["kind"].drop_duplicates()
    total = sums[["COUNT", "ESTIMATE", "COUNTS_COUNT", "COUNTS_ESTIMATE"]].sum().loc[names]
    return pd.DataFrame(
        {f"RMSE_{column}": (total[column] / total[f"COUNTS_{column}"]) ** 0.5 for column in ("COUNT", "ESTIMATE")}
    )


def _draw_totals(axis: Axes, table: pd.DataFrame) -> None:
    from matplotlib.ticker import LogLocator

    for value, filled in zip(OF, ("none", "full"), strict=True):
        every = table[(table["OF"] == value) & (table["WORKLOAD"] != WORKLOADS[TOTAL_ONLY])].assign(MEASURED=True)
        for name, part, x in _measured(every):
            if len(part):
                label, colour = f"{TABLES[name]}, {value}", COLOURS[name]
                axis.plot(x, part["RMSE"], MARKERS[name], color=colour, ms=5, fillstyle=filled, label=label)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("")


def _by_size(table: pd.DataFrame, label: str, panel: Callable[[Axes, pd.DataFrame], None]) -> Figure:
    """Draw one panel a level: a row for each iteration level, a column for each summary level."""
    from matplotlib import pyplot as plt

    table = table[table["SIZE"] != ALL]
    sizes = sorted(table["SIZE"].unique(), key=_largest)
    table = table.assign(x=table["SIZE"].map(sizes.index))
    kinds, types = sorted(table["ITERATION_LEVEL"].unique()), list(dict.fromkeys(table["REGION_TYPE"]))
    shape = (len(kinds), len(types))
    figure, axes = plt.subplots(
        *shape, figsize=(2.1 * shape[1] + 1.2, 2.4 * shape[0] + 1), sharex=True, sharey="row", squeeze=False
    )
    for kind, row in zip(kinds, axes, strict=True):
        for name, axis in zip(types, row, strict=True):
            of_level = table[(table["REGION_TYPE"] == name) & (table["ITERATION_LEVEL"] == kind)]
            if of_level.empty:
                axis.text(0.5, 0.5, "not tabulated", ha="center", transform=axis.transAxes)
            else:
                panel(axis, of_level)
            axis.set_axisbelow(True)
            axis.set_title(Level(name, int(kind)).name, fontsize=10)
            axis.set_xticks(range(len(sizes)), [_short(_largest(size)) for size in sizes], rotation=90)
            axis.set_xlim(-0.6, len(sizes) - 0.4)
    figure.supxlabel(SIZE_AXIS, fontsize=10)
    for row in axes:
        row[0].set_ylabel(label)
    handles = {
        name: handle for axis in axes.flat for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles) if len(handles) <= 6 else 4)
    return figure


def _largest(size: str) -> int:
    return int(size.rpartition("-")[2])


def _short(number: int) -> str:
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number // unit}{name}"
    return str(number)


def _measured(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, Any]]:
    """Yield (workload, its measured counts by size, their positions); of several donors' noise the most frequent."""
    table = (
        table[table["MEASURED"]].sort_values("COUNTS").drop_duplicates(["x", "WORKLOAD"], keep="last").sort_values("x")
    )
    for place, name in enumerate(WORKLOADS):
        part = table[table["WORKLOAD"] == name]
        yield name, part, part["x"] + (place - 2) * 0.13


def _draw_errors(axis: Axes, table: pd.DataFrame) -> None:
    for name, part, x in _measured(table):
        axis.plot(x, part["MOE"], "_", color=INK, ms=11, mew=1.2, label="stated margin of error")
        axis.plot(x, part["ERROR_95"], MARKERS[name], color=COLOURS[name], ms=5, label=TABLES[name])
    axis.update_datalim([(0, 0)])  # the axis begins at 0


def _draw_coverage(axis: Axes, table: pd.DataFrame) -> None:
    axis.axhline(95, color=INK, lw=1, ls="--", label="95%")
    for name, part, x in _measured(table):
        low, high = wilson(part["COVERAGE"].to_numpy(), part["COUNTS"].to_numpy())
        axis.vlines(x, 100 * low, 100 * high, color=COLOURS[name], lw=1.5)
        axis.plot(x, 100 * part["COVERAGE"], MARKERS[name], color=COLOURS[name], ms=5, label=TABLES[name])
    axis.set_ylim(-4, 104)


def wilson(share: Any, number: Any) -> tuple[Any, Any]:
    """Return Wilson's 95% interval of a share of `number` independent counts."""
    centre = (share + Z**2 / (2 * number)) / (1 + Z**2 / number)
    half = Z / (1 + Z**2 / number) * np.sqrt(share * (1 - share) / number + Z**2 / (4 * number**2))
    return centre - half, centre + half


def _draw_bias(axis: Axes, table: pd.DataFrame) -> None:
    axis.axhline(0, color=INK, lw=1)
    for name, part, x in _measured(table):
        half = Z * np.sqrt((part["RMSE"] ** 2 - part["BIAS"] ** 2) / part["COUNTS"])
        axis.vlines(x, part["BIAS"] - half, part["BIAS"] + half, color=COLOURS[name], lw=1.5)
        axis.plot(x, part["BIAS"], MARKERS[name], color=COLOURS[name], ms=5, label=TABLES[name])


def _draw_workloads(axis: Axes, table: pd.DataFrame) -> None:
    bottom = np.zeros(len(table))
    for name in ("SUPPRESSED", *WORKLOADS):
        share = 100 * table[name].to_numpy()
        colour = COLOURS.get(name, SUPPRESSED)
        axis.bar(table["x"], share, 0.8, bottom, color=colour, label=TABLES.get(name, "suppressed"))
        bottom += share
    axis.set_ylim(0, 100)
