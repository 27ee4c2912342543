"""What every page that das makes has in common: its style, its pictures (SVG) and how numbers are written.

A page gets the style by `style()`, the pictures by importing `pictures.html` in its template. Templates keep to what
Jinja and Nunjucks have in common where a browser renders them too (`das show --export`).
"""

from __future__ import annotations

from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape


def environment(package: str, folder: str) -> Environment:
    """The templates of a package's folder, beside the pictures."""
    own, shared = PackageLoader(package, folder), PackageLoader("tasks.lifecycle.pages", ".")
    made = Environment(loader=ChoiceLoader([own, shared]), autoescape=select_autoescape(), trim_blocks=True)
    made.filters["number"] = number
    made.filters["percent"] = percent
    return made


def style() -> str:
    """The style sheet."""
    return (files("tasks.lifecycle.pages") / "style.css").read_text()


def number(value: float) -> str:
    """A whole number with commas, and a minus that is as wide as a plus."""
    return f"{round(value):,}".replace("-", "−")


def percent(value: float) -> str:
    """A share in percent, at one decimal below ten."""
    return f"{100 * value:.1f}%" if value < 0.0995 else f"{round(100 * value):,}%"
