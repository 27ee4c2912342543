"""error.csv, coverage.csv, target.csv, error.html, board.svg: what spines and estimators buy. Of marked data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from tasks.pages import render
from tasks.pages.charts import picture, standalone
from tasks.pages.text_table import TextTable
from tasks.pages.words import PRODUCTS, best_in_words, level_title
from tasks.top_down.accuracy.entities import LEVELS
from tasks.top_down.estimate.gls.margin_tables import COVERED as WITH_MARGIN

GREY = "#8b93a1"
COLOURS = {"conventional": GREY, "aian": "#d58a1c", "optimized": "#2f86d1"}
SPINES = {"conventional": "conventional", "aian": "AIAN", "optimized": "optimized"}
DOTS = {"topdown": "#d58a1c", "gls": "#2f86d1"}
SHAPES = {"topdown": "o", "gls": "D"}
ESTIMATORS = {"topdown": "topdown, as the program of 2020", "gls": "gls, from all measurements"}
SHOWN = {"persons": ("total", "voting age by race"), "units": ("occupied",)}
NOMINAL = 95.0
TARGET = 95.0  # per cent of the areas, of the Census Bureau
CLOSE = {
    "mean error, %": "{mape_shown}",
    "within 5%": "{near_shown}",
    "within 5": "{within_5:.1f}%",
    "within neither": "{outliers:.1f}%",
}
COVERED = {
    "level": "{place}",
    "count": "{of}",
    "spine": "{spine_title}",
    "estimator": "{estimator}",
    "counts": "{n:,.0f}",
    "release": "{coverage:.1%}",
    "square": "{square:.2f}",
    "unbiased": "{unbiased_coverage:.1%}",
    "unbiased square": "{unbiased_square:.2f}",
    "standard error": "{error:.2f}",
}


def write_report(
    out: Path,
    errors: pd.DataFrame,
    coverage: pd.DataFrame,
    kinds: Sequence[str],
    estimators: Sequence[str],
    about: dict[str, str],
    target: pd.DataFrame,
    replicates: Mapping[str, Any] | None = None,
) -> list[TextTable]:
    """Write OUT/error.csv, coverage.csv, target.csv, error.html and board.svg; return the errors, a table a quantity.

    replicates: what the page shows of a comparison with them (`write_comparison`).
    """
    errors.to_csv(out / "error.csv", index=False)
    coverage.to_csv(out / "coverage.csv", index=False)
    target.to_csv(out / "target.csv", index=False)
    whole, spread = errors[errors["size"] == "all"], _spread(errors, about)
    columns = [(kind, estimator) for kind in kinds for estimator in estimators]
    sections, tables = [], []
    for product, quantity in errors[["product", "quantity"]].drop_duplicates().itertuples(index=False):
        table = errors[(errors["product"] == product) & (errors["quantity"] == quantity)]
        title = f"{PRODUCTS[product]}: {quantity}"
        of_all, of_blocks = table[table["size"] == "all"], table[table["level"] == "block"]
        first = of_all[of_all["estimator"] == estimators[0]]
        tables.append(_table(f"{title}: mean absolute error (bias)", "level", of_all, columns))
        sections.append(
            {
                "title": title,
                "levels": tables[-1],
                "blocks": _table(f"{title} of blocks by true size", "size", of_blocks, columns),
                "chart": chart(first, kinds) if quantity in SHOWN[product] else "",
            }
        )
    where = about.pop("States", "")
    board = board_picture(whole, coverage, kinds, estimators, spread, where)
    (out / "board.svg").write_text(standalone(board))
    covered = coverage.assign(
        place=coverage["level"].map(LEVELS) + coverage["cut"].map(["", ", cut"].__getitem__),
        of=coverage["product"].map(PRODUCTS) + ": " + coverage["quantity"],
        spine_title=coverage["spine"].map(SPINES),
    )
    page = render(
        "tasks.top_down.accuracy",
        "accuracy.html",
        sections=sections,
        about=about,
        where=where,
        best=_best_spines(whole, kinds, estimators[0]),
        verdict=_verdict(target),
        board=board,
        first=ESTIMATORS[estimators[0]],
        margins=_margins(covered, kinds),
        coverage=TextTable.filled("Coverage of margins", COVERED, covered.to_dict("records"), words=4),
        spread=spread,
        closeness=closeness_table(errors, kinds[-1], estimators[0]),
        outliers=outlier_table(errors, kinds[-1], estimators[0]),
        target=target_table(target, columns),
        beside_spine=_beside_spine(whole, coverage, kinds, estimators),
        replicates=replicates,
        spine_title=SPINES[kinds[-1]],
    )
    (out / "error.html").write_text(page)
    return tables


def closeness_table(errors: pd.DataFrame, kind: str, estimator: str) -> TextTable:
    """Return by count and level how close counts of one spine and estimator are to the true ones."""
    shown = errors["quantity"].isin([quantity for of in SHOWN.values() for quantity in of])
    rows = errors[shown & (errors["size"] == "all") & (errors["spine"] == kind) & (errors["estimator"] == estimator)]
    rows = rows.assign(of=rows["product"].map(PRODUCTS) + ": " + rows["quantity"], place=rows["level"].map(LEVELS))
    heads = {"count": "{of}", "level": "{place}", "counts": "{n:,.0f}"} | CLOSE
    title = f"How close counts are to the truth, {SPINES[kind]} spine"
    return TextTable.filled(title, heads, with_percentages(rows.sort_values("of", kind="stable")), words=2)


def outlier_table(errors: pd.DataFrame, kind: str, estimator: str) -> TextTable:
    """Return by level and true size the share of totals that are far from the true ones."""
    chosen = errors["quantity"].isin([quantities[0] for quantities in SHOWN.values()]) & (errors["size"] != "all")
    rows = errors[chosen & (errors["spine"] == kind) & (errors["estimator"] == estimator)]
    rows = rows.assign(of=rows["product"].map(PRODUCTS), place=rows["level"].map(LEVELS))
    heads = {"of": "{of}", "level": "{place}", "true size": "{size}", "counts": "{n:,.0f}"} | CLOSE
    return TextTable.filled(
        f"Outliers by size, {SPINES[kind]} spine, {estimator}", heads, with_percentages(rows), words=3
    )


def with_percentages(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return rows whose mean percentage error is empty where no true count is above 0."""
    shown = rows.assign(
        mape_shown=[f"{value:.1f}%" if value == value else "" for value in rows["mape"]],
        near_shown=[f"{value:.1f}%" if value == value else "" for value in rows["within_5_percent"]],
    )
    return shown.to_dict("records")


def target_table(target: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> TextTable:
    """Return by level the share of areas that meet the redistricting target, by spine and estimator."""
    rows = []
    for level, table in target.groupby("level", sort=False):
        by = table.set_index(["spine", "estimator"])["share"]
        areas = f"{table['areas'].iloc[0]:,}"
        rows.append([LEVELS[str(level)], *(f"{by[at]:.1f}% of {areas}" for at in columns)])
    heads = ["level", *(f"{SPINES[kind]}, {estimator}" for kind, estimator in columns)]
    return TextTable("Areas whose largest group is well released", heads, rows)


def _best_spines(errors: pd.DataFrame, kinds: Sequence[str], estimator: str) -> str:
    """Return in words on which spine the total of persons is nearest to the truth, level by level."""
    chosen = (errors["product"] == "persons") & (errors["quantity"] == "total") & (errors["estimator"] == estimator)
    by = errors[chosen].set_index(["level", "spine"])["mae"]
    levels = [level for level in LEVELS if level in by.index] if len(kinds) > 1 else []
    return best_in_words({LEVELS[level]: {SPINES[kind]: by[level, kind] for kind in kinds} for level in levels})


def _verdict(target: pd.DataFrame) -> str:
    """Return where the redistricting target is missed."""
    missed = target[target["share"] < TARGET]
    if missed.empty:
        return "It is met everywhere here."
    named = (
        f"{LEVELS[str(row['level'])]} ({SPINES[row['spine']]}, {row['estimator']})" for row in missed.to_dict("records")
    )
    return f"It is missed here by: {', '.join(named)}; and met by all others."


def _beside_spine(
    errors: pd.DataFrame, coverage: pd.DataFrame, kinds: Sequence[str], estimators: Sequence[str]
) -> dict[str, str] | None:
    """Return the standard error that spine.html shows, of totals of areas off the spine, and the release's error."""
    for level in ("mcd", "place"):
        at = (coverage["level"] == level) & (coverage["quantity"] == "total")
        rows = coverage[at & (coverage["estimator"] == estimators[-1])]
        if set(rows["spine"]) != set(kinds) or len(kinds) < 2:
            continue
        sums = (rows["error"] * rows["n"]).groupby(rows["spine"]).sum() / rows["n"].groupby(rows["spine"]).sum()
        ours = errors[(errors["level"] == level) & (errors["quantity"] == "total")].set_index(["spine", "estimator"])
        ends = kinds[0], kinds[-1]
        return {
            "areas": level_title(level, several=True),
            "spines": " to ".join(f"{SPINES[kind]}" for kind in ends),
            "unbiased": " to ".join(f"{sums[kind]:.1f}" for kind in ends),
            "released": " to ".join(f"{ours['mae'][kind, estimators[0]]:.1f}" for kind in ends),
        }
    return None


def _spread(errors: pd.DataFrame, about: Mapping[str, str]) -> str:
    """Return what is known of how far the errors of other draws would be."""
    if errors["sd"].isna().all():
        return "From one seed, so one draw of the noise: differences of some per cent may be chance (--seeds 3)."
    return f"Means of {about['Seeds']} draws of the noise; a whisker is the standard deviation from draw to draw."


def _margins(coverage: pd.DataFrame, kinds: Sequence[str]) -> TextTable:
    """Return by count and level the share of the released counts within their margins, by spine."""
    chosen = coverage["quantity"].isin(WITH_MARGIN) & (coverage["cut"] == 0) & (coverage["estimator"] == "gls")
    rows = []
    for (of, place), table in coverage[chosen].sort_values("of", kind="stable").groupby(["of", "place"], sort=False):
        by = table.set_index("spine")
        shares = [f"{by['coverage'][kind]:.1%} of {by['n'][kind]:,.0f}" if kind in by.index else "" for kind in kinds]
        rows.append([str(of), str(place), *shares])
    columns = ["count", "level", *(f"{SPINES[kind]} spine" for kind in kinds)]
    return TextTable("Released counts within their margins", columns, rows, words=2)


def _table(title: str, key: str, table: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> TextTable:
    """Return by level or class of size the number of entities, and by spine and estimator mean error and bias."""
    rows = []
    for name, of_name in table.groupby(key, sort=False):
        measured = of_name.set_index(["spine", "estimator"])
        figures = [f"{measured['mae'].loc[at]:.2f} ({signed(measured['bias'].loc[at])})" for at in columns]
        rows.append([LEVELS.get(str(name), str(name)), f"{of_name['n'].iloc[0]:,}", *figures])
    return TextTable(title, [key, "counts", *(f"{SPINES[kind]}, {estimator}" for kind, estimator in columns)], rows)


def signed(value: float) -> str:
    """Return a bias with its sign; 0 has none."""
    return f"{value:+z.2f}".replace("-", "−").replace("+0.00", "0.00")


@picture
def board_picture(
    errors: pd.DataFrame,
    coverage: pd.DataFrame,
    kinds: Sequence[str],
    estimators: Sequence[str],
    spread: str,
    where: str = "",
) -> Figure:
    """Draw the errors of both estimators by level, and the share of counts within their margins."""
    product = "persons" if "persons" in set(errors["product"]) else "units"
    shown = SHOWN[product]
    errors = errors[errors["product"] == product]
    totals = coverage[(coverage["product"] == product) & (coverage["quantity"] == shown[0]) & (coverage["cut"] == 0)]
    levels, covered = ([level for level in LEVELS if level in set(table["level"])] for table in (errors, totals))
    rows = len(shown) + bool(len(totals))
    height = 0.22 * errors["level"].nunique() + 0.9
    size = (max(3.2 * len(kinds) + 1.6, 8), rows * height + 1.2)
    figure, axes = plt.subplots(rows, len(kinds), figsize=size, squeeze=False, sharey="row", sharex="row")
    for column, kind in enumerate(kinds):
        for row, quantity in enumerate(shown):
            chosen = errors[(errors["spine"] == kind) & (errors["quantity"] == quantity)]
            _draw_errors(axes[row, column], chosen, estimators, levels)
            axes[row, column].set_xlabel(f"mean absolute error of {quantity}")
        if len(totals):
            _draw_coverage(axes[-1, column], totals[totals["spine"] == kind], estimators, covered)
        axes[0, column].set_title(f"{SPINES[kind]} spine", fontsize=10)
    for row in range(len(shown)):  # after the last column: a row's columns share their limits
        low, high = axes[row, 0].get_xlim()
        axes[row, 0].xaxis.set_major_locator(MaxNLocator(4) if high < 3 * low else LogLocator(subs=(1, 2, 5)))
    titles = f"How far released counts of {PRODUCTS[product].lower()} are from the truth, by level of geography"
    titles += f": {where}" if where else ""
    figure.suptitle(f"{titles}\n", fontsize=12)  # the empty line holds the legend
    figure.supxlabel(_sentence(estimators, errors, spread), fontsize=8.5)
    below_title = (0.5, 1 - 0.22 / size[1])
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="upper center", bbox_to_anchor=below_title, ncols=2, fontsize=9)
    return figure


def _sentence(estimators: Sequence[str], errors: pd.DataFrame, spread: str) -> str:
    """Return the picture's caption."""
    unit = "persons" if "persons" in set(errors["product"]) else "units"
    lines = [f"Errors are in {unit}; further left is better; from 1 to 10 is ten times the error."]
    if len(estimators) == 2:
        lines[0] += " Per cent: by how much gls changes the error of topdown."
    if (errors["mae"] == 0).any():
        lines.append("Exact: declared, or without error in these draws.")
    return "\n".join([*lines, f"Not private. {spread}"])


def _draw_errors(axis: Axes, table: pd.DataFrame, estimators: Sequence[str], levels: list[str]) -> None:
    """Draw a line for each level from one estimator's error to the other's, with the change in per cent.

    An error of 0 has no place on a logarithmic axis: it is said in words. Words are right of the dots and whiskers of
    their row, or alone in it.
    """
    axis.set_xscale("log")
    at = -np.arange(len(levels))
    by = {name: table[table["estimator"] == name].set_index("level").reindex(levels) for name in estimators}
    for name, values in by.items():
        noisy = (values["mae"] > 0).to_numpy()
        drawn, spread = values["mae"][noisy], values["sd"].fillna(0)[noisy]
        axis.errorbar(
            drawn, at[noisy], xerr=spread, fmt=SHAPES[name], color=DOTS[name], ecolor=GREY, label=ESTIMATORS[name]
        )
    errors = np.array([values["mae"] for values in by.values()])
    ends = np.max([values["mae"] + values["sd"].fillna(0) for values in by.values()], axis=0)
    right_of_end: Any = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
    for y, end, of_level in zip(at.tolist(), ends.tolist(), errors.T, strict=True):
        exact = of_level == 0
        if exact.all():
            axis.text(0.01, y, "exact", transform=axis.get_yaxis_transform(), va="center", fontsize=8)
        elif exact.any():
            axis.annotate(f"{estimators[exact.argmax()]}: exact", (end, y), **right_of_end)
        elif len(estimators) == 2 and (of_level > 0).all():
            axis.hlines(y, of_level.min(), of_level.max(), color=GREY, lw=1.5, zorder=0)
            change = round(100 * (of_level[1] / of_level[0] - 1))
            words = f"{change:+d}%".replace("-", "\u2212") if change else "the same"
            axis.annotate(words, (end, y), **right_of_end)
    axis.margins(x=0.25)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_yticks(at, [LEVELS[level] for level in levels])
    axis.set_ylim(0.4 - len(levels), 0.6)


def _draw_coverage(axis: Axes, table: pd.DataFrame, estimators: Sequence[str], levels: list[str]) -> None:
    """Draw the share of released totals within their margins, for entities that cut no block group."""
    axis.axvline(NOMINAL, color=GREY, lw=1, ls="--")
    for name in estimators:
        shares = table[table["estimator"] == name].set_index("level")["coverage"].reindex(levels)
        axis.plot(100 * shares, -np.arange(len(levels)), SHAPES[name], color=DOTS[name], label=ESTIMATORS[name])
    axis.set_yticks(-np.arange(len(levels)), [LEVELS[level] for level in levels])
    axis.set_ylim(0.4 - len(levels), 0.6)
    axis.set_xlabel("released totals within the 95% margin (%)")


@picture
def chart(table: pd.DataFrame, kinds: Sequence[str]) -> Figure:
    """Draw the mean absolute error by level and spine; whiskers are the standard deviation from seed to seed."""
    levels = [level for level in LEVELS if level in set(table["level"])]
    figure, axis = plt.subplots(figsize=(8, 0.5 * len(levels) + 1.2))
    for place, kind in enumerate(kinds):
        own = table[table["spine"] == kind].set_index("level").loc[levels]
        at = np.arange(len(levels))[::-1] + 0.25 * ((len(kinds) - 1) / 2 - place)
        spread = own["sd"].fillna(0)
        axis.barh(at, own["mae"], 0.22, xerr=spread, color=COLOURS[kind], ecolor=GREY, label=f"{SPINES[kind]} spine")
    axis.set_yticks(np.arange(len(levels))[::-1], [LEVELS[level] for level in levels])
    axis.set(xlabel="mean absolute error")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure
