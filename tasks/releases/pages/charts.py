"""Charts as SVG for light and dark pages: one ink for everything except data."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib

matplotlib.use("svg")  # no display, in a worker or on a server
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from tasks.errors import Refused

P = ParamSpec("P")
INK = "#010203"  # stands for the page's text colour
LIGHT, DARK = "#1a1a1a", "#e8e8e8"  # ink on a light and on a dark page
BLUE, ORANGE = "#3b82c4", "#d9722e"  # 3:1 against both papers, and apart for colour-blind readers
FORMATS = (".svg", ".png", ".pdf")
INKED: Any = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
STYLE: Any = {
    **dict.fromkeys(INKED, INK),
    "svg.fonttype": "none",
    "svg.hashsalt": "das-flows",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.grid": True,
    "grid.color": "#8b93a1",
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
_ADAPTS = f"<style>svg{{color:{LIGHT}}}@media(prefers-color-scheme:dark){{svg{{color:{DARK}}}}}</style>"


def picture(chart: Callable[P, Figure]) -> Callable[P, str]:
    """Decorator: draw a chart as SVG for a page, in the page's text colour."""

    @wraps(chart)
    def drawn(*arguments: P.args, **options: P.kwargs) -> str:
        text = io.StringIO()
        with plt.rc_context(STYLE):
            figure = chart(*arguments, **options)
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
        svg = text.getvalue()
        svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
        return re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", svg, count=1)

    return drawn


def standalone(svg: str) -> str:
    """Return a page's chart as a separate file that follows the viewer's light or dark mode."""
    head, start, body = svg.partition("<defs>")
    return head + _ADAPTS + start + body


def save(chart: Callable[[], Figure], path: Path) -> None:
    """Draw a chart into a file. SVG follows the viewer's light or dark mode; PNG and PDF are light.

    Raises Refused for another suffix, or if the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise Refused(f"a chart is written as {', '.join(FORMATS)}, not as {path.name}")
    try:
        if path.suffix == ".svg":
            path.write_text(standalone(picture(chart)()), "utf-8")
            return
        with plt.rc_context({**STYLE, **dict.fromkeys(INKED, LIGHT)}):
            figure = chart()
            figure.savefig(path, facecolor="#ffffff", dpi=160)
        plt.close(figure)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None
