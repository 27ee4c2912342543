"""Answer a hearing's question about a districting plan, whether its range is within a limit, in words and on a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Literal

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from spine.geography import FloatArray, IntArray
from tasks.geography.blocks.area_file import AreaFile
from tasks.geography.points import Point
from tasks.geography.regions import Region
from tasks.records.block_codes import TRACT_UNIT
from tasks.releases.pages import number
from tasks.releases.pages.charts import INK, LIGHT, picture
from tasks.releases.pages.text_table import TextTable
from tasks.top_down.user_areas.deviations import LEVEL, Deviations, StatisticBounds

Verdict = Literal["yes", "no", "not known"]
FEW, MANY = 12, 40  # districts of a map with much room, and with little
LABELS = (13, 10, 7)  # points of a map's labels: of few districts, of more, and of many
MAP_WIDTH = 4.5  # inches
MAP_SHAPES = (0.4, 1.4)  # the least and largest height of a map over its width
SHORT_NAME = 4  # letters of names that a map has room for
COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
)  # the colours of Okabe and Ito
MOST_DIGITS = 16  # behind the point of a share in per cent
CITE = (
    "The published counts are what redistricting uses, and their range is the one to cite. For a district that cuts "
    "block groups they are usually nearer to the count before noise than the estimate is, for other districts about as "
    "near."
)
NOT_PUBLISHED = "The counts given are an estimate by das-flows, NOT counts that were published."
PUBLISHED = "The published range of this plan"
GUIDE = "10 % is a guide for plans of states and localities, not for districts of Congress."
WITHIN = 0.1  # the range, as a share of the ideal, that courts have let pass for state plans without a further reason


def census_verdict(plan: Deviations, within: float) -> Verdict:
    """Return whether the range of the census counts is at most a share of the ideal, by its bounds."""
    bounds = range_of(plan)
    if bounds.high <= within * plan.ideal:
        return "yes"
    return "no" if bounds.low > within * plan.ideal else "not known"


def range_of(plan: Deviations) -> StatisticBounds:
    """Return the bounds of the largest deviation less the smallest."""
    return next(one for one in plan.bounds if one.name == "range")


def answer(plan: Deviations, within: float) -> list[str]:
    """Return the answer in sentences: for the published counts, if given, then for the census counts."""
    bounds, limit = range_of(plan), f"{100 * within:g} %"
    low, high = shown_bounds(plan, bounds, within)
    between = f"between {low} and {high}, with a probability of at least {100 * LEVEL:g} %"
    census = {
        "yes": f"Before noise was added to the counts, the range was at most {limit}: it lies {between}.",
        "no": f"Before noise was added to the counts, the range was above {limit}: it lies {between}.",
        "not known": f"Before noise was added to the counts, the range was {between}: whether it was at most {limit} "
        f"is not known from the measurements. {_why_not_known(plan)}",
    }[census_verdict(plan, within)]
    said = [f"Provisional: {plan.remark}"] if plan.remark else []
    guide = [GUIDE] if within == WITHIN else []
    if bounds.published is None:
        return [*said, _estimated(bounds, plan.ideal), census, *guide]
    share = bounds.published / plan.ideal
    within_it, persons = "within" if share <= within else "above", number(round(bounds.published, 1))
    range_ = f"{in_percent(share, within)} of the ideal ({persons} persons)"
    what, read = ("The range by the counts given", NOT_PUBLISHED) if plan.published_is_estimate else (PUBLISHED, CITE)
    return [*said, f"{what} is {range_}, {within_it} the limit of {limit}.", census, read, *guide]


def _why_not_known(plan: Deviations) -> str:
    """Return why a range is not known, and what would narrow its bounds."""
    inside = "The limit lies between these bounds."
    if not plan.groups_cut:
        return f"{inside} The plan cuts no block group of the spine: only fewer districts would have narrower bounds."
    groups = "1 block group" if plan.groups_cut == 1 else f"{number(plan.groups_cut)} block groups"
    return (
        f"{inside} The plan cuts {groups} of the spine, the blocks that were measured together: the measurements know "
        "a part of a group much less well than the whole. A plan that cuts fewer has narrower bounds. Asking again "
        "gives the same bounds: the noise was drawn once."
    )


def _estimated(bounds: StatisticBounds, ideal: float) -> str:
    """Return the range of the estimates, compared with that of noise alone."""
    said = f"The range of the estimates is {in_percent(bounds.estimate / ideal)}; published counts are not given."
    if bounds.estimate > 2 * bounds.noise_alone:
        return said
    alone = in_percent(bounds.noise_alone / ideal)
    return f"{said} If all districts were equal, noise alone would give a range of {alone} half of the time."


def in_percent(share: float, limit: float | None = None, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a share in per cent with two decimals, or with more if these hide its side of a limit."""
    exact = 100 * Decimal(repr(float(share)))
    for digits in range(2, MOST_DIGITS):
        shown = exact.quantize(Decimal(1).scaleb(-digits), rounding)
        if limit is None or (shown <= 100 * Decimal(repr(limit))) == (share <= limit):
            break
    return f"{(shown + 0).normalize():f} %"  # no -0


def shown_bounds(plan: Deviations, bounds: StatisticBounds, within: float | None = None) -> tuple[str, str]:
    """Return bounds in per cent of the ideal, rounded outwards."""
    low, high = bounds.low / plan.ideal, bounds.high / plan.ideal
    return in_percent(low, within, ROUND_FLOOR), in_percent(high, within, ROUND_CEILING)


def verdict_table(plan: Deviations, within: float) -> TextTable:
    """Return the answer as a table for the terminal."""
    bounds, limit = range_of(plan), f"within {100 * within:g}%?"
    rows = [["counts before noise", " to ".join(shown_bounds(plan, bounds, within))]]
    rows[0].append(census_verdict(plan, within))
    if bounds.published is not None:
        share = bounds.published / plan.ideal
        rows.insert(0, ["published counts", in_percent(share, within), "yes" if share <= within else "no"])
    return TextTable("The plan", ["range of the", "of the ideal", limit], rows, answer(plan, within))


def _plain(name: str) -> str:
    """Return a name from a file as chart text, where dollar signs would begin a formula."""
    return name.replace("$", r"\$")


@dataclass(frozen=True)
class Sketch:
    """Where the districts of a plan are, in degrees, longitude first.

    middle: (districts, 2). tracts: (tracts, 2) points, and `of`, (tracts,) the district that has most blocks of each;
    without shapes. rings: the rings of each district's shape, (corners, 2); empty without shapes.
    """

    middle: FloatArray
    tracts: FloatArray
    of: IntArray
    rings: Sequence[Sequence[FloatArray]] = ()


def tract_points(file: AreaFile, points: Mapping[Region, Point]) -> Sketch | None:
    """Return the points of an area file's tracts, and of each area the mean of its blocks' tracts.

    None where an area has no tract with a point.
    """
    tracts, number = np.unique(file.code // TRACT_UNIT, return_inverse=True)
    regions = [Region("PR-TRACT" if code // 10**9 == 72 else "TRACT", f"{code:011d}") for code in tracts.tolist()]
    there = np.array([region in points for region in regions])
    degrees = np.array([points[region][::-1] for region in regions if region in points]).reshape(-1, 2)
    blocks = np.zeros((len(file.names), len(tracts)))
    np.add.at(blocks, (file.area, number), 1)
    blocks = blocks[:, there]
    if not blocks.any(axis=1).all():
        return None
    return Sketch(blocks @ degrees / blocks.sum(axis=1, keepdims=True), degrees, blocks.argmax(axis=0))


def labels_of(names: Sequence[str]) -> list[str]:
    """Return the labels of districts on a map: their names if all are short, else their numbers in the table."""
    short = all(len(name) <= SHORT_NAME for name in names)
    return list(names) if short else [str(at) for at in range(1, len(names) + 1)]


@picture
def district_map(names: Sequence[str], plan: Deviations, within: float, sketch: Sketch) -> Figure:
    """Draw each district in a colour, as its shape or by the points of its tracts, with its label at its middle.

    A label has a mark if the district is outside the band.
    """
    stretch = 1 / np.cos(np.radians(sketch.middle[:, 1].mean()))  # of a degree of latitude over one of longitude
    corners = np.concatenate([sketch.tracts, *(ring for rings in sketch.rings for ring in rings)])
    width, height = np.maximum(np.ptp(corners, axis=0), 1e-9) * (1, stretch)
    figure = plt.figure(figsize=(MAP_WIDTH, MAP_WIDTH * np.clip(height / width, *MAP_SHAPES)))
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    figure.set_layout_engine("none")
    share, colour = plan.shown / plan.ideal, _colours(sketch.middle)
    if sketch.rings:
        for rings, filled in zip(sketch.rings, colour, strict=True):
            shape = Path.make_compound_path(*(Path(ring, closed=True) for ring in rings))
            axis.add_patch(PathPatch(shape, facecolor=filled, edgecolor=INK, linewidth=0.5))
        axis.autoscale_view()
    else:
        own = [colour[at] for at in sketch.of.tolist()]
        axis.scatter(sketch.tracts[:, 0], sketch.tracts[:, 1], c=own, s=9, linewidths=0)
    box: Any = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    size = LABELS[0] if len(names) <= FEW else LABELS[1] if len(names) <= MANY else LABELS[2]
    for text, at, off in zip(labels_of(names), sketch.middle, share.tolist(), strict=True):
        mark = "▲" if off > within / 2 else "▼" if off < -within / 2 else ""
        axis.annotate(_plain(text) + mark, at, ha="center", va="center", fontsize=size, color=LIGHT, bbox=box)
    axis.set_aspect(stretch)
    axis.axis("off")
    return figure


def _colours(middle: FloatArray) -> list[str]:
    """Return a colour for each district: the one whose districts so far are farthest away."""
    chosen: list[int] = []
    for place in middle:
        apart = [
            min((float(np.hypot(*(place - middle[at]))) for at, own in enumerate(chosen) if own == one), default=np.inf)
            for one in range(len(COLOURS))
        ]
        chosen.append(int(np.argmax(apart)))
    return [COLOURS[one] for one in chosen]
