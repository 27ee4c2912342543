"""Points on a logarithmic axis, a row for each level: the data of the macro `dots` in `pictures.html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, TypeGuard

LEFT, RIGHT = 160, 740  # where the axis runs
MOST = 10**12  # that is drawn; an infinite threshold is larger
Marked = tuple[str, Sequence[float | None]]


def dots(
    rows: Sequence[Mapping[str, Any]], series: Mapping[str, Marked], unit: str, *, least: float = 1
) -> dict[str, Any]:
    """Return a picture: rows by their names, and of each series, by its words, a mark with a value for every row.

    Values that are None, below `least` or not finite are left out.
    """
    drawn = [value for _, values in series.values() for value in values if _on_axis(value, least)]
    first = floor(log10(min(drawn, default=1))) if least < 1 else 0
    last = max(first + 1, ceil(log10(max(drawn, default=1))))

    def x(value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (log10(value) - first) / (last - first), 1)

    return {
        "unit": unit,
        "series": [{"name": name, "mark": mark} for name, (mark, _) in series.items()],
        "ticks": [{"value": 10**power, "x": x(10**power)} for power in range(first, last + 1)],
        "rows": [
            {
                "name": row["name"],
                "points": [
                    {"mark": mark, "x": x(value)}
                    for mark, values in series.values()
                    if _on_axis(value := values[number], least)
                ],
            }
            for number, row in enumerate(rows)
        ],
    }


def _on_axis(value: float | None, least: float) -> TypeGuard[float]:
    return value is not None and least <= value < MOST
