"""Charts of a spine as SVG. Lines and text take the page's colour, so the charts work in light and dark mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import matplotlib.ticker
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from spine.hierarchy import Spine, changes
from tasks.pages.charts import INK, picture
from tasks.pages.words import level_title, query_title
from tasks.spine.first_pass import SPINES
from tasks.spine.summary import LEVEL_ORDER, NAMES

COLOURS = {"conventional": "#8b93a1", "aian": "#d58a1c", "optimized": "#2f86d1"}
MARKERS = {"conventional": "o", "aian": "s", "optimized": "D"}


@picture
def distances(entities: pd.DataFrame, classes: Sequence[str]) -> Figure:
    """Return the share of each class's entities within a given OSED, by spine."""
    figure, axes = plt.subplots(1, len(classes), figsize=(3.2 * len(classes), 3), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], classes, strict=True):
        of_class = entities[(entities["class"] == name) & ~entities["outside"]]
        for width, shift, which in zip(
            (5, 3, 1.6), (0.0, 0.1, 0.2), SPINES, strict=True
        ):  # all show where they coincide
            values = np.sort(of_class[f"osed_{which}"])
            share = np.arange(1, len(values) + 1) / len(values)
            steps = np.append(1, values), np.append(0, share)
            look: dict[str, Any] = {"color": COLOURS[which], "lw": width, "marker": MARKERS[which], "ms": 5}
            axis.step(*steps, where="post", markevery=(shift, 0.3), **look)
        axis.set(
            xscale="log",
            xlim=(0.9, None),
            ylim=(0, 1.02),
            title=f"{level_title(name, several=True)} ({len(of_class):,})",
        )
        axis.set_xlabel("OSED at most")
        _plain_log(axis)
    axes[0, 0].set_ylabel("share of the class")
    return _legend(figure)


@picture
def errors(classes: pd.DataFrame, marginal: str) -> Figure:
    """Return the mean standard error of a cell in each class, by spine."""
    figure, axis = plt.subplots(figsize=(8, 0.42 * len(classes) + 1.3))
    rows = np.arange(len(classes))[::-1]
    columns = [classes[f"se_mean_{marginal}_{which}"].to_numpy() for which in SPINES]
    axis.hlines(rows, np.min(columns, axis=0), np.max(columns, axis=0), color="#8b93a1", alpha=0.5)
    for size, which, values in zip((11, 7, 6), SPINES, columns, strict=True):
        axis.plot(values, rows, MARKERS[which], color=COLOURS[which], ms=size)
    axis.set_yticks(rows, [level_title(name, several=True) for name in classes["class"]])
    axis.set(xscale="log", xlabel=f"mean standard error of {query_title(marginal)}", ylim=(-0.6, len(classes) - 0.4))
    _plain_log(axis)
    return _legend(figure)


@picture
def fanouts(levels: pd.DataFrame) -> Figure:
    """Return fan-outs of every level.

    Largest (marker), 5th to 95th percentile (line), quartiles (bar), median (gap).
    """
    rows = levels[levels["fanout_max"].notna()].reset_index(drop=True)
    figure, axis = plt.subplots(figsize=(8, 0.3 * len(rows) + 1.6))
    y = _row_positions(rows)
    for place, row in zip(y, rows.to_dict("records"), strict=True):
        which, spread = str(row["spine"]), {name: float(row[f"fanout_{name}"]) for name in _SPREAD}
        axis.plot([spread["p5"], spread["p95"]], [place, place], color=COLOURS[which], lw=1.5)
        axis.plot([spread["p25"], spread["p75"]], [place, place], color=COLOURS[which], lw=7, solid_capstyle="butt")
        axis.plot(spread["p50"], place, "|", color=INK, ms=11, mew=2)
        axis.plot(spread["max"], place, MARKERS[which], color=COLOURS[which], ms=5, mfc="none")
    axis.set_yticks(
        y,
        [
            level_title(str(level)) if which == "conventional" or level not in _SHARED else ""
            for which, level in zip(rows["spine"], rows["level"], strict=True)
        ],
    )
    axis.tick_params(axis="y", length=0)
    axis.set(xscale="log", xlabel="children of a geounit")
    _plain_log(axis)
    return _legend(figure)


_SPREAD = ("p5", "p25", "p50", "p75", "p95", "max")
_SHARED = ("US", "State", "County", "Tract", "Block_Group")


def _row_positions(rows: pd.DataFrame) -> list[float]:
    """Return levels from the top down, the spines of one level side by side."""
    order = [level for level in LEVEL_ORDER if level in set(rows["level"])]
    shift = {"conventional": 0.27, "aian": 0.0, "optimized": -0.27}
    return [-order.index(level) + shift[which] for which, level in zip(rows["spine"], rows["level"], strict=True)]


@dataclass(frozen=True)
class Hierarchy:
    """One spine's geounits over the blocks of a county, for drawing.

    entity: (blocks,) place/MCD entity of each block in spine order, -1 outside all. aian: (blocks,) whether it lies in
    an AIAN area. levels: name, starts and shares of each level from the county's parts down to the block groups.
    """

    entity: Any
    aian: Any
    levels: tuple[tuple[str, Any, Any], ...]


def hierarchy_of(spine: Spine, inside: Any, entity: Any, aian: Any) -> Hierarchy:
    """Return the part of a spine over the blocks for which `inside` (by row of the geography) holds."""
    kept = inside[spine.order]
    position = np.cumsum(kept) - 1
    levels = []
    for level, name in enumerate(spine.levels[:-1]):
        if name in ("US", "State"):
            continue
        here = kept[spine.starts[level]]
        levels.append((name, position[spine.starts[level][here]], spine.shares[level][here]))
    rows = spine.order[kept]
    return Hierarchy(entity[rows], aian[rows], tuple(levels))


@picture
def hierarchies(spines: Mapping[str, Hierarchy]) -> Figure:
    """Return a county's geounits, level under level, over its blocks.

    Coloured where one entity holds all of a geounit.
    """
    rows = max(len(h.levels) for h in spines.values()) + 1
    figure, axes = plt.subplots(len(spines), 1, figsize=(10, 0.62 * rows * len(spines) + 0.8), squeeze=False)
    for axis, (which, drawn) in zip(axes[:, 0], spines.items(), strict=True):
        _draw(axis, drawn)
        axis.grid(False)
        axis.set_title(f"{NAMES[which].capitalize() if which != 'aian' else 'AIAN'} spine", loc="left")
    return figure


def _draw(axis: Axes, drawn: Hierarchy) -> None:
    blocks = len(drawn.entity)
    alike = changes(drawn.entity, drawn.aian.astype(np.int64))  # neighbours of one colour make one bar
    bars = [*drawn.levels, ("Blocks", np.flatnonzero(alike), None)]
    for row, (_, starts, shares) in enumerate(bars):
        ends = np.append(starts[1:], blocks)
        colours = [_fill(drawn.entity[a:b], drawn.aian[a:b]) for a, b in zip(starts, ends, strict=True)]
        edges: Any = {} if shares is None else {"edgecolor": INK, "linewidth": 0.5}
        axis.bar(starts, 0.86, ends - starts, bottom=-row, align="edge", color=colours, **edges)
        if shares is not None:
            for a, b, share in zip(starts, ends, shares, strict=True):
                if share == 0:  # an only child: its parent has its share
                    axis.plot((a + b) / 2, 0.43 - row, "o", ms=2.4, color=INK)
    names = [f"{level_title(name)} ({blocks if shares is None else len(starts):,})" for name, starts, shares in bars]
    axis.set_yticks([0.43 - row for row in range(len(bars))], names)
    axis.set(xlim=(0, blocks), ylim=(1 - len(bars), 0.9), xticks=[])
    axis.tick_params(left=False)
    axis.spines[:].set_visible(False)


_PALETTE = ("#2f86d1", "#3aa76d", "#9b6fd0", "#c8557a", "#2aa5a5", "#7f8f2e", "#5a6fd6", "#b07a4a")
_MIXED, _NOBODY, _AIAN = "#8b93a155", "#8b93a1", "#d58a1c"


def _fill(entity: Any, aian: Any) -> str:
    if aian.all():
        return _AIAN
    first = entity[0]
    if aian.any() or (entity != first).any():
        return _MIXED
    return _NOBODY if first < 0 else _PALETTE[int(first) % len(_PALETTE)]


def _legend(figure: Figure) -> Figure:
    handles = [
        Line2D([], [], color=COLOURS[which], marker=MARKERS[which], lw=2, label=NAMES[which]) for which in SPINES
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(SPINES))
    return figure


def _plain_log(axis: Axes) -> None:
    axis.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
