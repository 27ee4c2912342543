"""What every page that das makes has in common: its style, its pictures (SVG) and how numbers are written.

A page gets the style by `style()`, the pictures by importing `pictures.html` in its template. Templates keep to what
Jinja and Nunjucks have in common where a browser renders them too (`das show --export`).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from math import floor

from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape


@cache  # templates that it holds are compiled once
def environment(package: str, folder: str) -> Environment:
    """The templates of a package's folder, beside the pictures."""
    own, shared = PackageLoader(package, folder), PackageLoader("tasks.pages", ".")
    made = Environment(loader=ChoiceLoader([own, shared]), autoescape=select_autoescape(), trim_blocks=True)
    made.filters["number"] = number
    made.filters["percent"] = percent
    made.filters["decimal"] = decimal
    return made


def style() -> str:
    """The style sheet."""
    return (files("tasks.pages") / "style.css").read_text()


def number(value: float) -> str:
    """A number with commas, with decimals where it has them, and with a minus that is as wide as a plus."""
    text = f"{round(value):,}" if value == round(value) else f"{value:,.12g}"
    return text.replace("-", "−")


def decimal(value: float) -> str:
    """A number at three digits."""
    text = f"{floor(value + 0.5):,}" if abs(value) >= 99.95 else f"{value:.3g}"  # halves upward, as in a browser
    return text.replace("-", "−")


def percent(value: float) -> str:
    """A share in percent, at one decimal below ten."""
    return f"{100 * value:.1f}%" if value < 0.0995 else f"{round(100 * value):,}%"


def end_of_axis(most: int) -> int:
    """The least of 1, 2, 4, 6, 8, 10, 20, … that is no less: where an axis of counts ends."""
    step = 1
    while True:
        for times in (1, 2, 4, 6, 8):
            if times * step >= most:
                return times * step
        step *= 10
