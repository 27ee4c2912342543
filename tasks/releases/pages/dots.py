"""Points on a logarithmic axis, a row for each level: the data of the macro `dots` in `pictures.html`.

Each series is named at its mark in the first row with the most marks, instead of in a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil, floor, log10
from textwrap import wrap
from typing import Any, TypeGuard

LEFT, RIGHT, END = 160, 740, 790  # ends of the axis, and the right end of a picture without notes
ROW, LINE, LETTER = 26, 16, 7.0  # heights of a row and of a line of labels, width of a letter
FEWEST = 30  # areas or counts behind a mark: a mean of fewer is chance and appears in tables only
MOST = 10**12  # the largest value drawn; an infinite threshold is larger


@dataclass(frozen=True)
class Series:
    """A mark with a value per row, or None; spread: half the length of its whisker."""

    mark: str
    values: Sequence[float | None]
    spread: Sequence[float] = ()


def dots(
    rows: Sequence[Mapping[str, Any]],
    series: Mapping[str, Series],
    unit: str,
    *,
    least: float = 1,
    finding: str = "",
) -> dict[str, Any]:
    """Return a chart; rows and series have their names.

    A row may have a `note` at its right end; a `head` row names the rows below it. Values that are None, infinite or
    below `least` are left out. finding: the chart's message, as a sentence.
    """
    drawn = [value for one in series.values() for value in one.values if _on_axis(value, least)]
    first = floor(log10(min(drawn, default=1))) if least < 1 else 0
    last = max(first + 1, ceil(log10(max(drawn, default=1))))
    left = max(LEFT, 24 + LETTER * max((len(row["name"]) for row in rows), default=0))

    def x(value: float) -> float:
        part = (log10(max(value, 10.0**first)) - first) / (last - first)
        return round(left + (RIGHT - left) * min(part, 1), 1)

    points = [list(_points(series, number, x, least)) for number in range(len(rows))]
    named = max(range(len(rows)), key=lambda number: len(points[number]), default=0)
    labels, lines = _labels(points[named] if rows else [])
    top = LINE * lines + 6
    for one in labels:
        one["to"] = top + ROW * named + 8
    notes = max((len(row.get("note", "")) for row in rows), default=0)
    return {
        "finding": finding,
        "unit": unit,
        "left": left,
        "top": top,
        "bottom": top + ROW * len(rows) + 6,
        "width": round(END + LETTER * max(notes - 3, 0)),
        "height": top + ROW * len(rows) + 42,
        "labels": labels,
        "ticks": [{"value": 10**power, "x": x(10**power)} for power in range(first, last + 1)],
        "rows": [{**row, "y": top + ROW * number + 16, "points": points[number]} for number, row in enumerate(rows)],
    }


def _points(series: Mapping[str, Series], number: int, x: Any, least: float) -> Iterator[dict[str, Any]]:
    for name, one in series.items():
        value = one.values[number]
        if _on_axis(value, least):
            half = one.spread[number] if one.spread else 0
            ends = (x(max(value - half, least)), x(value + half)) if half > 0 else ()
            yield {"name": name, "mark": one.mark, "x": x(value), "spread": ends}


def _labels(points: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the names of marks above them, in lines without overlap, and the number of lines.

    A mark precedes its name, above the row's mark. A name goes above those that begin over it, so it does not cross
    their leader lines.
    """
    found: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda one: one["x"], reverse=True):
        width = LETTER * len(point["name"]) + 12
        left = round(min(point["x"], END - width), 1)
        line = max((one["line"] + 1 for one in found if one["left"] <= left + width + 16), default=0)
        found.append({**point, "at": point["x"], "x": left + 12, "left": left, "line": line})
    lines = max((one["line"] + 1 for one in found), default=0)
    for one in found:
        one["y"] = LINE * (lines - one["line"]) - 3
    return found, lines


def alone(chart: Mapping[str, Any], *notes: str) -> str:
    """Return a chart as an SVG file, with its finding and notes above it; it follows light and dark mode."""
    from tasks.releases.pages import environment

    lines = [line for text in (chart["finding"], *notes) for line in wrap(text, int(chart["width"] / 7))]
    module: Any = environment("tasks.releases.pages", ".").get_template("pictures.html").module
    svg = str(module.dots_svg(chart, chart["finding"], lines, 18 * len(lines) + 10)).strip()
    head, end, body = svg.partition(">")
    look = (files("tasks.releases.pages") / "dots.css").read_text("utf-8")
    return f"{head}{end}<style>{look}</style>{body}\n"


def _on_axis(value: float | None, least: float) -> TypeGuard[float]:
    return value is not None and least <= value < MOST
