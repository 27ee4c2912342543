"""The chart of a bottom-up accuracy curve: simulated accuracy and errors over epsilon, with the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy.analyses.accuracy_curve import Errors, Point
from tasks.pages.charts import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ClosedForm = Callable[[float], Errors | None]


def draw_curve(points: Sequence[Point], closed: ClosedForm, unit: str) -> Figure:
    """Draw two panels over epsilon (log): A1 and A2, floored at 0; L1 and L2 (log). Bars are two standard errors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2))
    accuracy, error = figure.subplots(1, 2)
    _panel(accuracy, points, closed, {"a1": "A1, by absolute error", "a2": "A2, by squared error"}, floor=0.0)
    accuracy.set(ylabel="accuracy (1 is exact)", ylim=(-0.02, 1.03), title="Accuracy curve (ROC in the slides)")
    _panel(error, points, closed, {"l1": f"L1, mean absolute [{unit}]", "l2": f"L2, mean squared [{unit}²]"})
    error.set(ylabel=f"error of a cell [{unit}; {unit}²]", yscale="log", title="Errors of a cell")
    return figure


def _panel(
    axes: Axes, points: Sequence[Point], closed: ClosedForm, series: dict[str, str], floor: float = -np.inf
) -> None:
    epsilons = [float(point.epsilon) for point in points]
    handles: list[Any] = []
    for (name, label), colour, marker in zip(series.items(), (BLUE, ORANGE), ("o", "s"), strict=True):
        means = [max(getattr(point.mean, name), floor) for point in points]
        spread = [2 * getattr(point.standard_error, name) for point in points]
        handles.append(
            axes.errorbar(epsilons, means, spread, color=colour, marker=marker, ms=5, ls="none", label=label)
        )
        between = np.geomspace(min(epsilons), max(epsilons), 200)
        expected = [getattr(errors, name) for epsilon in between if (errors := closed(float(epsilon)))]
        if expected:
            form = f"{label.partition(',')[0]}, closed form"
            handles += axes.plot(between, np.maximum(expected, floor), color=colour, lw=1.4, label=form)
    axes.set(xscale="log", xlabel="privacy-loss budget ε (add or remove one record)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(handles=handles, fontsize=8)
