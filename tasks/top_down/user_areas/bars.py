"""Bars next to a plan's numbers: where a deviation is before noise, by the measurements, on one axis for a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privacy.noise.margins import Z95
from spine.geography import FloatArray
from tasks.top_down.user_areas.deviations import Deviations

WIDTH, HEIGHT, EDGE = 240, 18, 8  # a bar's picture, and the margin at both ends of its axis
LABEL = 90  # units of a label's room


@dataclass(frozen=True)
class Bars:
    """A column of a table: its heading, and a picture for each row, as SVG."""

    head: str
    cells: Sequence[str]


@dataclass(frozen=True)
class _Axis:
    """An axis, in per cent of the ideal."""

    low: float
    high: float

    def __call__(self, value: float) -> float:
        part = (value - self.low) / ((self.high - self.low) or 1)
        return round(EDGE + (WIDTH - 2 * EDGE) * min(max(part, 0.0), 1.0), 1)

    def head(self) -> str:
        """Return the labels of both ends, and of the ideal where there is room."""
        places = [(self.low, "start"), (self.high, "end")]
        zero = [(0.0, "middle")] if LABEL < self(0) < WIDTH - LABEL else []
        texts = (
            f'<text x="{self(value)}" y="13" text-anchor="{anchor}">{_percent(value)}</text>'
            for value, anchor in (*places, *zero)
        )
        return _svg("".join(texts), "per cent of the ideal")


def district_bars(plan: Deviations, within: float) -> Bars:
    """Return a bar for each district: its own 95% interval, and the thinner one for all districts at once."""
    share = 100 / plan.ideal
    own = np.array([plan.deviation - Z95 * plan.error, plan.deviation + Z95 * plan.error])
    ends = [value * share for value in (own, plan.joint, plan.shown)]
    axis = _axis(ends, 50 * within)
    rows = zip(
        plan.joint.T * share, own.T * share, plan.deviation * share, _each(plan.published, share, plan), strict=True
    )
    return Bars(axis.head(), [_bar(axis, (-50 * within, 50 * within), *row) for row in rows])


def bound_bars(plan: Deviations, within: float) -> Bars:
    """Return a bar for the largest deviation, the smallest and the range: their bounds for the counts before noise."""
    share = 100 / plan.ideal
    axis = _axis([np.array([[one.low, one.high, one.estimate] for one in plan.bounds]) * share], 100 * within)

    def cells() -> Iterator[str]:
        for one in plan.bounds:
            band = (0.0, 100 * within) if one.name == "range" else (-50 * within, 50 * within)
            bounds = np.array([one.low, one.high]) * share
            published = None if one.published is None else one.published * share
            yield _bar(axis, band, bounds, bounds, one.estimate * share, published)

    return Bars(axis.head(), list(cells()))


def _each(published: FloatArray | None, share: float, plan: Deviations) -> list[float | None]:
    return [None] * len(plan.deviation) if published is None else list(published * share)


def _axis(values: Sequence[FloatArray], reach: float) -> _Axis:
    """Return an axis that holds these values, and as much on both sides of 0 as `reach`."""
    return _Axis(min(-reach, *(float(one.min()) for one in values)), max(reach, *(float(one.max()) for one in values)))


def _bar(
    axis: _Axis,
    band: tuple[float, float],
    joint: FloatArray,
    own: FloatArray,
    estimate: float,
    published: float | None,
) -> str:
    """Return the picture of one row: the shaded band, the ideal, both intervals, the estimate, the published figure."""
    middle, zero = HEIGHT / 2, axis(0.0)
    at = [axis(float(value)) for value in (*band, *joint, *own)]
    drawn = [
        f'<rect class="band" x="{at[0]}" y="0" width="{round(at[1] - at[0], 1)}" height="{HEIGHT}"/>',
        f'<line class="axis" x1="{zero}" x2="{zero}" y1="0" y2="{HEIGHT}"/>',
        f'<line class="joint" x1="{at[2]}" x2="{at[3]}" y1="{middle}" y2="{middle}"/>',
        f'<line class="own" x1="{at[4]}" x2="{at[5]}" y1="{middle}" y2="{middle}"/>',
        f'<circle class="at" cx="{axis(estimate)}" cy="{middle}" r="3"/>',
    ]
    if published is not None:
        x = axis(published)
        drawn.append(f'<path class="published" d="M{x} {middle - 6}l6 6l-6 6l-6-6z"/>')
    return _svg("".join(drawn), "")


def _svg(content: str, label: str) -> str:
    """Return a picture; without a label it is only seen, because the row has its numbers."""
    hidden = f'role="img" aria-label="{label}"' if label else 'aria-hidden="true"'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" {hidden}>{content}</svg>'


def _percent(value: float) -> str:
    return "0" if value == 0 else f"{value:+.3g} %".replace("-", "−")
