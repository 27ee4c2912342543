"""error.csv, coverage.csv, error.html, board.svg: what spines and estimators buy. Of synthetic data; not private."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasks.pages import render
from tasks.pages.charts import picture
from tasks.pages.text_table import TextTable
from tasks.top_down.accuracy.entities import LEVELS

COLOURS = {"conventional": "#8b93a1", "aian": "#d58a1c", "optimized": "#2f86d1"}
DOTS = {"topdown": "#d58a1c", "gls": "#2f86d1"}
SHOWN = {"persons": ("total", "voting age by race"), "units": ("occupied",)}
NOMINAL = 95.0
COVERED = {
    "level": "{place}",
    "count": "{product}: {quantity}",
    "spine": "{spine}",
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
) -> list[TextTable]:
    """Write OUT/error.csv, coverage.csv, error.html and board.svg; return the errors by level, a table a quantity."""
    errors.to_csv(out / "error.csv", index=False)
    coverage.to_csv(out / "coverage.csv", index=False)
    whole = errors[errors["size"] == "all"]
    columns = [(kind, estimator) for kind in kinds for estimator in estimators]
    sections, tables = [], []
    for product, quantity in errors[["product", "quantity"]].drop_duplicates().itertuples(index=False):
        table = errors[(errors["product"] == product) & (errors["quantity"] == quantity)]
        title = f"{product}: {quantity}"
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
    board = board_picture(whole, coverage, kinds, estimators)
    (out / "board.svg").write_text(board)
    covered = coverage.assign(
        place=coverage["level"].map(LEVELS) + coverage["cut"].map(["", ", cutting block groups"].__getitem__)
    )
    within = TextTable.filled("Coverage of margins", COVERED, covered.to_dict("records"), words=4)
    page = render(
        "tasks.top_down.accuracy", "accuracy.html", sections=sections, about=about, board=board, coverage=within
    )
    (out / "error.html").write_text(page)
    return tables


def _table(title: str, key: str, table: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> TextTable:
    """Return by level or class of size the number of entities, and by spine and estimator mean error and bias."""
    rows = []
    for name, of_name in table.groupby(key, sort=False):
        measured = of_name.set_index(["spine", "estimator"])
        figures = [
            f"{measured['mae'].loc[at]:.2f} ({measured['bias'].loc[at]:+.2f})".replace("-", "−") for at in columns
        ]
        rows.append([LEVELS.get(str(name), str(name)), f"{of_name['n'].iloc[0]:,}", *figures])
    return TextTable(title, [key, "cells", *(f"{kind}, {estimator}" for kind, estimator in columns)], rows)


@picture
def board_picture(
    errors: pd.DataFrame, coverage: pd.DataFrame, kinds: Sequence[str], estimators: Sequence[str]
) -> Figure:
    """Draw the errors of both estimators by level, and the share of counts within their margins."""
    persons = "persons" if "persons" in set(errors["product"]) else "units"
    shown = SHOWN[persons]
    errors = errors[errors["product"] == persons]
    totals = coverage[(coverage["product"] == persons) & (coverage["quantity"] == shown[0]) & (coverage["cut"] == 0)]
    levels, covered = ([level for level in LEVELS if level in set(table["level"])] for table in (errors, totals))
    rows = len(shown) + bool(len(totals))
    height = 0.22 * errors["level"].nunique() + 0.9
    size = (3.2 * len(kinds) + 1.6, rows * height)
    figure, axes = plt.subplots(rows, len(kinds), figsize=size, squeeze=False, sharey="row", sharex="row")
    for column, kind in enumerate(kinds):
        for row, quantity in enumerate(shown):
            chosen = errors[(errors["spine"] == kind) & (errors["quantity"] == quantity)]
            _draw_errors(axes[row, column], chosen, estimators, levels)
            axes[row, column].set_xlabel(f"mean absolute error of {quantity}")
        if len(totals):
            _draw_coverage(axes[-1, column], totals[totals["spine"] == kind], estimators, covered)
        axes[0, column].set_title(f"{kind} spine")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _draw_errors(axis: Axes, table: pd.DataFrame, estimators: Sequence[str], levels: list[str]) -> None:
    """Draw a line for each level from one estimator's error to the other's, with the change in per cent."""
    at = -np.arange(len(levels))
    by = {name: table[table["estimator"] == name].set_index("level")["mae"].loc[levels] for name in estimators}
    least = min((values[values > 0].min() for values in by.values() if (values > 0).any()), default=1.0)
    drawn = {name: np.maximum(values.to_numpy(), least / 2) for name, values in by.items()}
    for name, values in drawn.items():
        axis.plot(values, at, "o", color=DOTS[name], label=name)
    if len(drawn) == 2:
        old, new = drawn["topdown"], drawn["gls"]
        axis.hlines(at, np.minimum(old, new), np.maximum(old, new), color="#8b93a1", lw=1.5, zorder=0)
        for y, before, after in zip(at, old, new, strict=True):
            change = f"{100 * (after / before - 1):+.0f}%".replace("-", "\u2212")
            axis.annotate(change, (max(before, after), y), (7, 0), textcoords="offset points", va="center", fontsize=8)
    axis.set_xscale("log")
    axis.margins(x=0.25)
    axis.set_yticks(at, [LEVELS[level] for level in levels])


def _draw_coverage(axis: Axes, table: pd.DataFrame, estimators: Sequence[str], levels: list[str]) -> None:
    """Draw the share of released totals within their margins, for entities that cut no block group."""
    axis.axvline(NOMINAL, color="#8b93a1", lw=1, ls="--")
    for name in estimators:
        shares = table[table["estimator"] == name].set_index("level")["coverage"].reindex(levels)
        axis.plot(100 * shares, -np.arange(len(levels)), "o", color=DOTS[name], label=name)
    axis.set_yticks(-np.arange(len(levels)), [LEVELS[level] for level in levels])
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
        axis.barh(at, own["mae"], 0.22, xerr=spread, color=COLOURS[kind], ecolor="#8b93a1", label=kind)
    axis.set_yticks(np.arange(len(levels))[::-1], [LEVELS[level] for level in levels])
    axis.set(xlabel="mean absolute error")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure
