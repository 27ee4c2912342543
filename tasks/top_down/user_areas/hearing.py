"""What a hearing asks of a districting plan: is its range within a limit? The answer in words, and two pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Literal

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from spine.geography import FloatArray
from tasks.inputs.block_codes import TRACT_UNIT
from tasks.inputs.blocks.area_file import AreaFile
from tasks.inputs.points import Point
from tasks.inputs.regions import Region
from tasks.pages.charts import BLUE, INK, ORANGE, picture
from tasks.pages.text_table import TextTable
from tasks.top_down.user_areas.deviations import LEVEL, Bounds, Deviations
from tasks.top_down.user_areas.intervals import Z95

Verdict = Literal["yes", "no", "not known"]
FEW = 20  # districts that are all named on the sketch
NEARER = (
    "The published counts are what redistricting uses, and their range is the one to cite. They are usually nearer to "
    "the counts before noise than the estimates are: in trials on made-up people, in four of five districts."
)
WITHIN = 0.1  # the range, as a share of the ideal, that courts have let pass for state plans without a further reason


def census_verdict(plan: Deviations, within: float) -> Verdict:
    """Return whether the range of the census counts is at most a share of the ideal, by its bounds."""
    bounds = range_of(plan)
    if bounds.high <= within * plan.ideal:
        return "yes"
    return "no" if bounds.low > within * plan.ideal else "not known"


def range_of(plan: Deviations) -> Bounds:
    """Return the bounds of the largest deviation less the smallest."""
    return next(one for one in plan.bounds if one.name == "range")


def answer(plan: Deviations, within: float) -> list[str]:
    """Return the answer in sentences: of the published counts first, where there are any, then of the census counts."""
    bounds, limit = range_of(plan), f"{100 * within:g} %"
    low, high = _bounds(plan)
    between = f"between {low} and {high}, with a probability of at least {100 * LEVEL:g} %"
    census = {
        "yes": f"The census range, of the counts before noise was added, is at most {limit}: it lies {between}.",
        "no": f"The census range, of the counts before noise was added, is above {limit}: it lies {between}.",
        "not known": f"Whether the census range, of the counts before noise was added, is at most {limit} is not known "
        f"from the measurements ({between}).",
    }[census_verdict(plan, within)]
    said = [_estimated(bounds, plan.ideal), census]
    if bounds.published is not None:
        share = bounds.published / plan.ideal
        within_it = "within" if share <= within else "above"
        said[0] = f"The published range of this plan is {_percent(share)}, {within_it} the limit of {limit}."
        said.append(NEARER)
    return [*said, plan.remark] if plan.remark else said


def _estimated(bounds: Bounds, ideal: float) -> str:
    """Return the range of the estimates, and whether noise alone makes such a one."""
    said = f"The range of the estimates is {_percent(bounds.estimate / ideal)}; published counts are not given."
    if bounds.estimate > 2 * bounds.noise_alone:
        return said
    return f"{said} Noise alone gives equal districts one of {_percent(bounds.noise_alone / ideal)}, half of the time."


def _percent(share: float) -> str:
    """Return a share in per cent at two decimals."""
    return f"{round(100 * float(share), 2):g} %"


def _bound(share: float, rounding: str) -> str:
    """Return a bound in per cent: three digits below 10 %, whole per cent from there on."""
    percent = 100 * Decimal(repr(float(share)))
    digits = 3 if abs(share) < 0.1 else max(1, percent.adjusted() + 1)
    return f"{float(Context(prec=digits, rounding=rounding).plus(percent)):g} %"


def _bounds(plan: Deviations) -> tuple[str, str]:
    """Return the bounds of the range of the census counts in per cent of the ideal, rounded outwards."""
    bounds = range_of(plan)
    return _bound(bounds.low / plan.ideal, ROUND_FLOOR), _bound(bounds.high / plan.ideal, ROUND_CEILING)


def verdict_table(plan: Deviations, within: float) -> TextTable:
    """Return the answer as a terminal shows it."""
    bounds, limit = range_of(plan), f"within {100 * within:g} %?"
    rows = [["counts before noise", " to ".join(_bounds(plan))]]
    rows[0].append(census_verdict(plan, within))
    if bounds.published is not None:
        share = bounds.published / plan.ideal
        rows.insert(0, ["published counts", _percent(share), "yes" if share <= within else "no"])
    return TextTable("The plan", ["range of the", "of the ideal", limit], rows, answer(plan, within))


@picture
def deviation_chart(names: Sequence[str], plan: Deviations, within: float) -> Figure:
    """Draw the districts' deviations in per cent of the ideal, with 95% intervals and the band of half the limit."""
    figure, axis = plt.subplots(figsize=(6, 1.1 + 0.15 * len(names)))
    at, share = np.arange(len(names))[::-1], 100 / plan.ideal
    reach = Z95 * plan.error * share
    axis.axvspan(-50 * within, 50 * within, color=BLUE, alpha=0.12, linewidth=0)
    axis.axvline(0, color=INK, linewidth=0.8)
    axis.hlines(at, plan.deviation * share - reach, plan.deviation * share + reach, color=INK, linewidth=1)
    axis.plot(plan.deviation * share, at, "o", color=BLUE, markersize=3.5, label="estimate, with its 95% interval")
    if plan.published is not None:
        axis.plot(plan.published * share, at, "D", color=ORANGE, markersize=4, label="published")
    axis.set_yticks(at, [*map(_plain, names)], fontsize=7)
    axis.set_ylim(-0.8, len(names) - 0.2)
    axis.set_xlabel(
        f"deviation from the ideal, per cent\nshaded: ± {50 * within:g}, which keeps the range within {100 * within:g}",
        fontsize=8,
    )
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=8)
    return figure


def _plain(name: str) -> str:
    """Return a name from a file as text of a picture, where dollar signs would begin a formula."""
    return name.replace("$", r"\$")


def tract_points(file: AreaFile, points: Mapping[Region, Point]) -> tuple[FloatArray, FloatArray] | None:
    """Return points of an area file's tracts, and of each area the mean of its blocks' tracts, (n, 2) degrees.

    Longitude comes first. None where an area has no tract with a point.
    """
    tracts, number = np.unique(file.code // TRACT_UNIT, return_inverse=True)
    regions = [Region("PR-TRACT" if code // 10**9 == 72 else "TRACT", f"{code:011d}") for code in tracts.tolist()]
    there = np.array([region in points for region in regions])
    degrees = np.array([points[region][::-1] for region in regions if region in points]).reshape(-1, 2)
    blocks = np.zeros((len(file.names), len(tracts)))
    np.add.at(blocks, (file.area, number), 1)
    blocks = blocks[:, there]
    return (degrees, blocks @ degrees / blocks.sum(axis=1, keepdims=True)) if blocks.any(axis=1).all() else None


@picture
def sketch_map(names: Sequence[str], plan: Deviations, within: float, tracts: FloatArray, middle: FloatArray) -> Figure:
    """Draw each district at its middle among the points of the tracts, named and by another mark outside the band."""
    figure, axis = plt.subplots(figsize=(4.5, 5.4))
    share = plan.shown / plan.ideal
    above, below = share > within / 2, share < -within / 2
    axis.plot(*tracts.T, ".", color=INK, alpha=0.25, markersize=2)
    for chosen, mark in ((~above & ~below, "o"), (above, "^"), (below, "v")):
        axis.plot(*middle[chosen].T, mark, color=INK, markersize=3 if mark == "o" else 6)
    for at in np.flatnonzero(above | below | (len(names) <= FEW)).tolist():
        axis.annotate(_plain(names[at][:12]), middle[at], (4, 0), textcoords="offset points", va="center", fontsize=7)
    axis.set_aspect(1 / np.cos(np.radians(middle[:, 1].mean())))
    axis.axis("off")
    return figure
