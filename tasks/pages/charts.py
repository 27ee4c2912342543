"""Pictures of a release as SVG that takes its ink from the page, so that it reads on light and dark ground."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib

matplotlib.use("svg")  # no display, in a worker or on a server
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

INK = "#010203"  # stands for the page's text colour
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "das-flows",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#8b93a1",
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def svg(figure: Figure) -> str:
    """Close a figure, and return it as SVG of a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    drawn = text.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace(INK, "currentColor")
    return re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", drawn, count=1)
