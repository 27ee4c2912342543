"""Exact numbers at the doors of the package: budgets, scales and probabilities are fractions, never floats."""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational


def exact(value: object, name: str) -> Fraction:
    """Return a whole number or fraction as a Fraction.

    Raises ValueError for a float, which is not the decimal that was typed, and for anything else.
    """
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))  # numpy's integers would overflow
    example = f'Fraction("{value}")' if isinstance(value, float) else 'Fraction("0.159")'
    raise ValueError(f"{name} must be an exact number, not the {type(value).__name__} {value!r:.40}: write {example}")
