"""Numbers on their way in and out of the analyses: options read exactly, guarantees printed rounded up."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, log10

from tasks.inputs.configuration import exact_number
from tasks.lifecycle.errors import Refused


def fraction(text: str, name: str, *, below: Fraction | None = None) -> Fraction:
    """The exact value of a positive number as typed, less than `below` where there is one.

    Raises
    ------
    Refused
        where it is not such a number.
    """
    wanted = "a positive number" if below is None else f"a number strictly between 0 and {below}"
    try:
        value = exact_number(text)
    except ValueError:
        raise Refused(f"{name} is {wanted}, not {text!r}") from None
    if value <= 0 or (below is not None and value >= below):
        raise Refused(f"{name} is {wanted}, not {text}")
    return value


def pair(text: str, name: str) -> tuple[str, str]:
    """The two sides of KEY=VALUE. Raises Refused where there is no `=`."""
    key, equals, value = text.rpartition("=")
    if not equals:
        raise Refused(f"{name} is LEVEL=NUMBER, not {text!r}")
    return key, value


def up(x: float | Fraction, places: int = 3) -> str:
    """A guarantee at so many decimal places, never below its value (a float is taken as its shortest decimal)."""
    exact = x if isinstance(x, Fraction) else Fraction(repr(x))
    return f"{ceil(exact * 10**places) / 10**places:.{places}f}"


def digits(x: Fraction, count: int = 6) -> str:
    """A budget at so many significant digits, rounded up."""
    places = count - 1 - floor(log10(x))
    return up(x, max(places, 0))


def near(x: float | Fraction, count: int = 5) -> str:
    """A figure that guarantees nothing, at so many significant digits."""
    return f"{float(x):.{count}g}"
