"""The chart of a bottom-up accuracy curve: expected accuracy and errors over epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from privacy.bottom_up.mechanism import ExpectedErrors
from tasks.releases.pages.charts import BLUE, ORANGE

PANELS = (
    ({"a1": "A1, by absolute error", "a2": "A2, by squared error"}, "accuracy (1 is exact)", "Accuracy curve"),
    ({"l1": "L1, mean absolute [records]", "l2": "L2, mean squared [records²]"}, "error of a cell", "Errors of a cell"),
)


def draw_curve(epsilons: Sequence[Fraction], errors: Callable[[float], ExpectedErrors]) -> Figure:
    """Draw two panels over epsilon (log): A1 and A2, floored at 0; L1 and L2 (log)."""
    figure = Figure(figsize=(10, 4.2))
    between = np.geomspace(float(min(epsilons)), float(max(epsilons)), 200)
    found = [errors(float(epsilon)) for epsilon in between]
    for axes, (series, label, title) in zip(figure.subplots(1, 2), PANELS, strict=True):
        for (name, words), colour in zip(series.items(), (BLUE, ORANGE), strict=True):
            values = np.array([getattr(each, name) for each in found])
            axes.plot(between, np.maximum(values, 0) if name.startswith("a") else values, color=colour, label=words)
        axes.set(xscale="log", xlabel="privacy-loss budget ε (add or remove one record)", ylabel=label, title=title)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.legend(fontsize=8)
    figure.axes[0].set_ylim(-0.02, 1.03)
    figure.axes[1].set_yscale("log")
    return figure
