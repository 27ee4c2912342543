"""error.csv and error.html: what each spine buys, by level and entity. Of synthetic data; not private."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tasks.lifecycle.pages import environment, style
from tasks.lifecycle.pictures import STYLE, svg
from tasks.top_down.accuracy import LEVELS

COLOURS = {"conventional": "#8b93a1", "aian": "#d58a1c", "optimized": "#2f86d1"}
SHOWN = {"persons": ("total", "voting age by race"), "units": ("occupied",)}


def write_report(out: Path, errors: pd.DataFrame, kinds: Sequence[str], about: dict[str, str]) -> None:
    """Write OUT/error.csv and OUT/error.html."""
    errors.to_csv(out / "error.csv", index=False)
    whole = errors[errors["size"] == "all"]
    tables = []
    for product, quantity in errors[["product", "quantity"]].drop_duplicates().itertuples(index=False):
        selected = whole[(whole["product"] == product) & (whole["quantity"] == quantity)]
        sizes = errors[(errors["product"] == product) & (errors["quantity"] == quantity) & (errors["level"] == "block")]
        tables.append(
            {
                "title": f"{product}: {quantity}",
                "rows": _rows(selected, "level", kinds, LEVELS),
                "blocks": _rows(sizes, "size", kinds, {}),
                "chart": chart(selected, kinds) if quantity in SHOWN[product] else "",
            }
        )
    page = environment("tasks.top_down", ".").get_template("accuracy.html")
    (out / "error.html").write_text(page.render(style=style(), tables=tables, kinds=kinds, about=about))


def _rows(table: pd.DataFrame, key: str, kinds: Sequence[str], titles: dict[str, str]) -> list[dict[str, object]]:
    """A row a level or class of size: how many there are, and by spine the mean absolute error and the bias."""
    rows = []
    for name, group in table.groupby(key, sort=False):
        by_spine = group.set_index("spine")
        figures = [(float(by_spine["mae"].loc[kind]), float(by_spine["bias"].loc[kind])) for kind in kinds]
        rows.append({"name": titles.get(str(name), str(name)), "n": int(by_spine["n"].iloc[0]), "figures": figures})
    return rows


def chart(table: pd.DataFrame, kinds: Sequence[str]) -> str:
    """The mean absolute error by level, spine beside spine; whiskers are the standard deviation from seed to seed."""
    levels = [level for level in LEVELS if level in set(table["level"])]
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 0.5 * len(levels) + 1.2))
        for place, kind in enumerate(kinds):
            selected = table[table["spine"] == kind].set_index("level").loc[levels]
            at = np.arange(len(levels))[::-1] + 0.25 * ((len(kinds) - 1) / 2 - place)
            spread = selected["sd"].fillna(0)
            axis.barh(at, selected["mae"], 0.22, xerr=spread, color=COLOURS[kind], ecolor="#8b93a1", label=kind)
        axis.set_yticks(np.arange(len(levels))[::-1], [LEVELS[level] for level in levels])
        axis.set(xlabel="mean absolute error")
        axis.legend()
        return svg(figure)
