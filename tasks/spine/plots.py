"""Charts of a spine: means by class of areas and children by level, and a county drawn level under level, as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spine.hierarchy import Spine, changes
from tasks.pages.charts import INK, picture
from tasks.pages.dots import FEWEST, Series, dots
from tasks.pages.words import level_title
from tasks.spine.summary import NAMES

COMPARED = {"conventional": "ring", "optimized": "circle"}


def by_class(classes: pd.DataFrame, column: str, unit: str, what: str) -> dict[str, Any]:
    """Return the picture of a mean over each class of areas on the two spines; column: the mean's name in `classes`."""
    known = classes.dropna(subset=[f"{column}_{which}" for which in COMPARED])
    found = known[known["entities"] >= FEWEST].to_dict("records")
    series = {
        f"{NAMES[which]} spine": Series(mark, [row[f"{column}_{which}"] for row in found])
        for which, mark in COMPARED.items()
    }
    rows = [{"name": level_title(row["class"], several=True), "note": f"{row['entities']:,} areas"} for row in found]
    less = sum(row[f"{column}_optimized"] < row[f"{column}_conventional"] for row in found)
    finding = f"The optimized spine has the smaller {what} for {less} of {len(rows)} classes of {FEWEST} areas or more."
    return dots(rows, series, f"{unit} (a step to the right is ten times as much)", least=0.01, finding=finding)


def fanouts(levels: pd.DataFrame) -> dict[str, Any]:
    """Return the picture of the children of a geounit, by level of the optimized spine."""
    rows = levels[levels["fanout_max"].notna() & (levels["spine"] == "optimized")].to_dict("records")
    marks = {"median": ("circle", "p50"), "95 of 100 have at most": ("box", "p95"), "largest": ("bar", "max")}
    series = {name: Series(mark, [row[f"fanout_{of}"] for row in rows]) for name, (mark, of) in marks.items()}
    named = [{"name": level_title(str(row["level"]))} for row in rows]
    widest = max(rows, key=lambda row: float(row["fanout_max"]), default=None)
    finding = widest and f"{widest['fanout_max']:,.0f} children is the most that a geounit of the optimized spine has."
    return dots(
        named, series, "children of a geounit (a step to the right is ten times as many)", finding=finding or ""
    )


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
