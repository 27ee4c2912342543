"""Parse the numbers of options exactly; print guarantees rounded up."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, log10

from privacy.noise.exact import exact_number
from tasks.errors import Refused

LONGEST_SHOWN = 100  # characters of typed text in a message

# Beyond these limits floats cannot represent the value, and the computation may not finish.
SHARES = (Fraction("1e-6"), 1 - Fraction("1e-6"))
DELTAS = (Fraction("1e-100"), 1 - Fraction("1e-6"))
BUDGETS = (Fraction("1e-9"), Fraction("1e9"))
Limits = tuple[Fraction, Fraction]


def fraction(text: str, name: str, limits: Limits = BUDGETS, *, below: Fraction | None = None) -> Fraction:
    """Return the exact value of a typed positive number, within limits and less than `below`. Raises Refused.

    Limits that begin at 0 allow 0.
    """
    wanted = "a positive number" if below is None else f"a number strictly between 0 and {below}"
    try:
        value = exact_number(text)
    except ValueError:
        raise Refused(f"{name} is {wanted}, not {text[:LONGEST_SHOWN]!r}") from None
    if value < 0 or value == 0 < limits[0] or (below is not None and value >= below):
        raise Refused(f"{name} is {wanted}, not {text}")
    if not limits[0] <= value <= limits[1]:
        raise Refused(f"{name} is from {float(limits[0]):.7g} to {float(limits[1]):.7g}, not {text}")
    return value


def share(text: str, name: str) -> Fraction:
    """Return a typed share of a budget. Raises Refused."""
    return fraction(text, name, SHARES, below=Fraction(1))


def delta_of(text: str) -> Fraction:
    """Return a typed delta of (epsilon, delta)-DP. Raises Refused."""
    return fraction(text, "delta", DELTAS, below=Fraction(1))


def pair(text: str, name: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE. Raises Refused without a `=`."""
    key, equals, value = text.rpartition("=")
    if not equals:
        raise Refused(f"{name} is LEVEL=NUMBER, not {text!r}")
    return key, value


def up(x: float | Fraction, places: int = 3) -> str:
    """Return a guarantee rounded up to `places` decimals; a float is taken as its shortest decimal."""
    exact = x if isinstance(x, Fraction) else Fraction(repr(x))
    return f"{ceil(exact * 10**places) / 10**places:.{places}f}"


def digits(x: Fraction, count: int = 6) -> str:
    """Return a budget rounded up to `count` significant digits."""
    places = count - 1 - floor(log10(x))
    return up(x, max(places, 0))


def near(x: float | Fraction, count: int = 5) -> str:
    """Return a figure that is not a guarantee, at `count` significant digits."""
    return f"{float(x):.{count}g}"
