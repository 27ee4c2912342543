"""Exact numbers at the doors of the package: budgets, scales and probabilities are fractions, never floats."""

from __future__ import annotations

import re
from fractions import Fraction
from numbers import Rational

EXACT = re.compile("(0|[1-9][0-9]{0,999})(/[1-9][0-9]{0,999})?")


def exact(value: object, name: str) -> Fraction:
    """Return a whole number or fraction as a Fraction.

    Raises ValueError for a float, which is not the decimal that was typed, and for anything else.
    """
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))  # numpy's integers would overflow
    example = f'Fraction("{value}")' if isinstance(value, float) else 'Fraction("0.159")'
    raise ValueError(f"{name} must be an exact number, not the {type(value).__name__} {value!r:.40}: write {example}")


def parse_exact(text: str) -> Fraction:
    """Return the exact number that a manifest holds as `5` or `1/3`. The manifest may come from anybody.

    Anything else raises ValueError or TypeError: `Fraction("1e999999999")` would take all memory.
    """
    if not EXACT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number such as 5 or 1/3")
    return Fraction(text)
