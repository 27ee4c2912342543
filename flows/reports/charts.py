"""Charts that can be read on a light and on a dark page: one ink for all that is not data."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.lifecycle.errors import Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#0a0b0c"  # stands for the reader's own text colour in an SVG
LIGHT, DARK = ("#1a1a1a", "#ffffff"), ("#e8e8e8", "#16181c")  # ink, paper
BLUE, ORANGE = "#3b82c4", "#d9722e"  # 3:1 against both papers, and apart for colour-blind readers
_ADAPTS = f"<style>svg{{color:{LIGHT[0]}}}@media(prefers-color-scheme:dark){{svg{{color:{DARK[0]}}}}}</style>"
FORMATS = (".svg", ".png", ".pdf")


def save(draw: Callable[[], Figure], path: Path, *, dark: bool = False) -> None:
    """Draw a chart into a file: .svg takes the colours of the page it is on, .png and .pdf are light or dark.

    Raises
    ------
    Refused
        for another ending, or where the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise Refused(f"a chart is written as {', '.join(FORMATS)}, not as {path.name}")
    try:
        if path.suffix == ".svg":
            path.write_text(svg(draw))
        else:
            ink, paper = DARK if dark else LIGHT
            _drawn(draw, ink).savefig(path, facecolor=paper, dpi=160)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None


def svg(draw: Callable[[], Figure]) -> str:
    """Return the chart as an SVG without paper, in the text colour of whatever page it is on; alone, light or dark."""
    text = io.StringIO()
    _drawn(draw, INK).savefig(text, format="svg", transparent=True, metadata={"Date": None})
    head, start, body = text.getvalue().replace(INK, "currentColor").partition("<defs>")
    return head + _ADAPTS + start + body


def _drawn(draw: Callable[[], Figure], ink: str) -> Figure:
    import matplotlib as mpl

    names = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color", "text.color")
    options: dict[Any, Any] = dict.fromkeys((*names, "grid.color"), ink)
    options |= {"grid.alpha": 0.2, "axes.grid": True, "font.size": 10}
    options |= {"axes.spines.top": False, "axes.spines.right": False, "axes.facecolor": "none", "svg.fonttype": "none"}
    options |= {"legend.frameon": False, "figure.constrained_layout.use": True}
    with mpl.rc_context(options):
        return draw()
