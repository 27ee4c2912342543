"""Report errors of spines and estimators on marked data: error.csv, coverage.csv, target.csv, error.html, board.svg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.releases.pages import render
from tasks.releases.pages.dots import FEWEST, Series, alone, dots
from tasks.releases.pages.text_table import TextTable
from tasks.releases.pages.words import PRODUCTS, best_in_words
from tasks.top_down.accuracy.errors import LEVELS

SPINES = {"conventional": "conventional", "aian": "AIAN", "optimized": "optimized"}
ESTIMATORS = {"topdown": "topdown, as the program of 2020", "gls": "gls, from all measurements"}
SHOWN = {"persons": ("total", "voting age by race"), "units": ("occupied",)}
TARGET = 95.0  # per cent of the areas: the Census Bureau's target
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
) -> list[TextTable]:
    """Write OUT/error.csv, coverage.csv, target.csv, error.html and board.svg; return a table per quantity."""
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
        tables.append(_table(f"{title}: mean absolute error (bias)", "level", of_all, columns))
        sections.append(
            {
                "title": title,
                "levels": tables[-1],
                "blocks": _table(f"{title} of blocks by true size", "size", of_blocks, columns),
                "first": quantity in SHOWN[product],
            }
        )
    where = about.pop("States", "")
    board = board_chart(whole, coverage, kinds, estimators, where)
    notes = "Further left is better. " * (len(estimators) > 1) + f"Not private. {spread}"
    (out / "board.svg").write_text(alone(board, notes), "utf-8")
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
        coverage=TextTable.filled("Coverage of margins", COVERED, covered.to_dict("records"), words=4),
        spread=spread,
        closeness=closeness_table(errors, kinds[-1], estimators[0]),
        target=target_table(target, columns),
        spine_title=SPINES[kinds[-1]],
    )
    (out / "error.html").write_text(page, "utf-8")
    return tables


def closeness_table(errors: pd.DataFrame, kind: str, estimator: str) -> TextTable:
    """Return, by count and level, how close counts of one spine and estimator are to the true ones."""
    shown = errors["quantity"].isin([quantity for of in SHOWN.values() for quantity in of])
    rows = errors[shown & (errors["size"] == "all") & (errors["spine"] == kind) & (errors["estimator"] == estimator)]
    rows = rows.assign(of=rows["product"].map(PRODUCTS) + ": " + rows["quantity"], place=rows["level"].map(LEVELS))
    heads = {"count": "{of}", "level": "{place}", "counts": "{n:,.0f}"} | CLOSE
    title = f"How close counts are to the truth, {SPINES[kind]} spine"
    return TextTable.filled(title, heads, with_percentages(rows.sort_values("of", kind="stable")), words=2)


def with_percentages(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return rows, with an empty mean percentage error if no true count is above 0."""
    shown = rows.assign(
        mape_shown=[f"{value:.1f}%" if value == value else "" for value in rows["mape"]],
        near_shown=[f"{value:.1f}%" if value == value else "" for value in rows["within_5_percent"]],
    )
    return shown.to_dict("records")


def target_table(target: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> TextTable:
    """Return, by level, the share of areas that meet the redistricting target, by spine and estimator."""
    rows = []
    for level, table in target.groupby("level", sort=False):
        by = table.set_index(["spine", "estimator"])["share"]
        areas = f"{table['areas'].iloc[0]:,}"
        rows.append([LEVELS[str(level)], *(f"{by[at]:.1f}% of {areas}" for at in columns)])
    heads = ["level", *(f"{SPINES[kind]}, {estimator}" for kind, estimator in columns)]
    return TextTable("Areas whose largest group is well released", heads, rows)


def _best_spines(errors: pd.DataFrame, kinds: Sequence[str], estimator: str) -> str:
    """Return in words the spine on which the total of persons is nearest to the truth, level by level."""
    chosen = (errors["product"] == "persons") & (errors["quantity"] == "total") & (errors["estimator"] == estimator)
    by = errors[chosen].set_index(["level", "spine"])["mae"]
    levels = [level for level in LEVELS if level in by.index] if len(kinds) > 1 else []
    return best_in_words({LEVELS[level]: {SPINES[kind]: by[level, kind] for kind in kinds} for level in levels})


def _verdict(target: pd.DataFrame) -> str:
    """Return a sentence that names the levels that miss the redistricting target."""
    missed = target[target["share"] < TARGET]
    if missed.empty:
        return "It is met everywhere here."
    named = (
        f"{LEVELS[str(row['level'])]} ({SPINES[row['spine']]}, {row['estimator']})" for row in missed.to_dict("records")
    )
    return f"Here it is missed by {', '.join(named)} and met by all others."


def _spread(errors: pd.DataFrame, about: Mapping[str, str]) -> str:
    """Return a sentence about how errors vary with the draw of the noise."""
    if errors["sd"].isna().all():
        return "From one run, so one draw of the noise: differences of some per cent may be chance (--runs 3)."
    return f"Means of {about['Runs']} draws of the noise; a whisker is the standard deviation from draw to draw."


def _table(title: str, key: str, table: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> TextTable:
    """Return, by level or size class, the number of entities, and mean error and bias by spine and estimator."""
    rows = []
    for name, of_name in table.groupby(key, sort=False):
        measured = of_name.set_index(["spine", "estimator"])
        figures = [f"{measured['mae'].loc[at]:.2f} ({signed(measured['bias'].loc[at])})" for at in columns]
        rows.append([LEVELS.get(str(name), str(name)), f"{of_name['n'].iloc[0]:,}", *figures])
    return TextTable(title, [key, "counts", *(f"{SPINES[kind]}, {estimator}" for kind, estimator in columns)], rows)


def signed(value: float) -> str:
    """Return a bias with its sign; 0 has no sign."""
    return f"{value:+z.2f}".replace("-", "−").replace("+0.00", "0.00")


def board_chart(
    errors: pd.DataFrame, coverage: pd.DataFrame, kinds: Sequence[str], estimators: Sequence[str], where: str = ""
) -> dict[str, Any]:
    """Draw the mean errors by count, level and estimator, on the last spine, or on both to compare two.

    Levels with fewer than FEWEST areas appear in the tables only. A change in per cent compares means over several
    seeds.
    """
    product = "persons" if "persons" in set(errors["product"]) else "units"
    shown = kinds if len(kinds) == 2 else kinds[-1:]
    errors = errors[(errors["product"] == product) & errors["spine"].isin(shown) & (errors["n"] >= FEWEST)]
    by = errors.set_index(["quantity", "level", "spine", "estimator"])
    totals = coverage[(coverage["product"] == product) & (coverage["quantity"] == "total") & (coverage["cut"] == 0)]
    within = totals.set_index(["level", "spine", "estimator"])["coverage"]
    rows: list[dict[str, Any]] = []
    keys: list[tuple[str, str] | None] = []
    for quantity in SHOWN[product]:
        levels = [level for level in LEVELS if (quantity, level) in {key[:2] for key in by.index}]
        rows += [{"name": quantity, "head": True}] if levels else []
        keys += [None] if levels else []
        for level in levels:
            words = [_change(by["mae"], by["sd"], quantity, level, shown[-1], estimators)]
            if quantity == "total" and (found := within.get((level, shown[-1], estimators[-1]))) is not None:
                words.append(f"{found:.0%} within the margin")
            rows.append({"name": LEVELS[level], "note": "; ".join(filter(None, words))})
            keys.append((quantity, level))

    def values(column: str, kind: str, name: str) -> list[float]:
        return [float(by[column].get((*key, kind, name), np.nan)) if key else np.nan for key in keys]

    series = {
        ESTIMATORS[name] + (f", {SPINES[kind]} spine" if len(shown) > 1 else ""): Series(
            mark, values("mae", kind, name), np.nan_to_num(values("sd", kind, name)).tolist()
        )
        for (kind, name), mark in zip(
            ((kind, name) for kind in shown for name in estimators), ("ring", "circle", "box", "square"), strict=False
        )
    }
    unit = f"mean absolute error, {product} (a step to the right is ten times as much)"
    return dots(
        rows, series, unit, least=0.01, finding=_finding(by["mae"], SHOWN[product][0], shown, estimators, where)
    )


def _change(
    errors: pd.Series, spread: pd.Series, quantity: str, level: str, kind: str, estimators: Sequence[str]
) -> str:
    """Return gls's change of topdown's error; "" for a single seed, whose difference may be chance."""
    found = [float(errors.get((quantity, level, kind, name), np.nan)) for name in estimators]
    if all(value == 0 for value in found):
        return "exact"
    if len(found) < 2 or spread.isna().all() or not found[0] > 0:
        return ""
    change = round(100 * (found[1] / found[0] - 1))
    return f"{change:+d}%".replace("-", "−") if change else "the same"


def _finding(errors: pd.Series, quantity: str, kinds: Sequence[str], estimators: Sequence[str], where: str) -> str:
    """Return the mean errors of the smallest areas in a sentence."""
    found = {
        LEVELS[level].lower(): errors.get((quantity, level, kinds[-1], estimators[0]))
        for level in ("tract", "place", "block")
    }
    far = [f"{value:.3g} in a {name}" for name, value in found.items() if value is not None]
    place = f" in {where}" if where else ""
    listed = ", ".join(far) or "not known: there are too few areas"
    return f"A released {quantity} count{place} is off on average by {listed} ({estimators[0]}, {SPINES[kinds[-1]]})."
