"""The parts that all pages share: the style, the charts (SVG) and the format of numbers.

A one-file page extends `one_file.html`, which contains the style; `pictures.html` has the charts as macros.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from tasks.releases.pages.words import count_title, level_title, query_title

if TYPE_CHECKING:
    from jinja2 import Environment

_PER_CENT = re.compile(r"(?<=\d) %")


@cache  # compile each template once
def environment(package: str, folder: str) -> Environment:
    """Return the templates of a package's folder and those shared by all pages."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape  # only pages need it

    own, shared = PackageLoader(package, folder), PackageLoader("tasks.releases.pages", ".")
    made = Environment(
        loader=ChoiceLoader([own, shared]),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # a page includes many, each of which would be looked for on the disk
    )
    made.globals["style"] = style
    made.filters |= {"number": number, "whole": whole, "percent": percent, "decimal": decimal}
    made.filters |= {"level": level_title, "query": query_title, "counted": count_title}
    return made


def render(package: str, template: str, **values: Any) -> str:
    """Return a page of a package's own template, in which no line ends between a number and its `%`."""
    page = environment(package, ".").get_template(template).render(**values)
    return _PER_CENT.sub("\N{NO-BREAK SPACE}%", page)


def style() -> str:
    """Return the style sheet."""
    return (files("tasks.releases.pages") / "style.css").read_text("utf-8")


def number(value: float) -> str:
    """Return a number with commas, its decimals if any, and a minus sign as wide as a plus."""
    text = f"{round(value):,}" if value == round(value) else f"{value:,.12g}"
    return text.replace("-", "−")


def whole(value: float) -> str:
    """Return a margin as a whole number of persons, rounded up."""
    return number(ceil(value))


def margin(value: float) -> str:
    """Return a margin >= 0 with three digits, or whole from 100 on, rounded up."""
    places = 2 - floor(log10(value)) if 0 < value < 100 else 0
    return number(ceil(value * 10**places) / 10**places)


def decimal(value: float) -> str:
    """Return a number with three digits."""
    text = f"{floor(value + 0.5):,}" if abs(value) >= 99.95 else f"{value:.3g}"  # halves upward, as in a browser
    return text.replace("-", "−")


def percent(value: float) -> str:
    """Return a share in percent, with one decimal below ten."""
    return f"{100 * value:.1f}%" if value < 0.0995 else f"{round(100 * value):,}%"


def end_of_axis(most: float) -> float:
    """Return the end of an axis: the smallest of …, 0.8, 1, 2, 4, 6, 8, 10, 20, … that is at least `most` > 0."""
    power = floor(log10(most))
    up, down = 10.0 ** max(power, 0), 10.0 ** max(-power, 0)
    ends = (times * up / down for times in (1, 2, 4, 6, 8, 10, 20))
    return next(end for end in ends if end >= most)
