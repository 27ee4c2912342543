"""Validate exact numbers: budgets, scales and probabilities are fractions, never floats."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Number, Rational
from typing import TypeAlias

Exact: TypeAlias = Fraction | Decimal | int | str  # as text `0.159`, `1e-3`, `618/125`
EXACT = re.compile("(0|[1-9][0-9]{0,999})(/[1-9][0-9]{0,999})?")
MAX_DIGITS, MAX_EXPONENT = 100, 100  # exact arithmetic on longer numbers takes memory and time


def exact(value: object, name: str) -> Fraction:
    """Return a whole number, a fraction, a Decimal, or a number as text, as a Fraction.

    Raises ValueError for a float, which is not the decimal that was typed, and for anything else.
    """
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))  # numpy's integers would overflow
    if isinstance(value, str | Decimal):
        text = str(value)
        try:
            return exact_number(text)
        except ValueError as error:
            raise ValueError(f"{name}: {text[:MAX_DIGITS]!r} {error}") from None
    example = f'"{value}"' if isinstance(value, float) else '"0.159"'
    raise ValueError(f"{name} must be an exact number, not the {_shown(value)}: write {example}")


def whole(value: object, name: str) -> int:
    """Return a whole number. Raises ValueError for anything else, also for True, 1.0 and text."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"{name} is a whole number, as 1, not the {_shown(value)}")


def _shown(value: object) -> str:
    """Return the type of a value, and one number or text itself: an array may be confidential."""
    return f"{type(value).__name__} {value!r:.40}" if isinstance(value, Number | str) else type(value).__name__


def exact_number(text: str) -> Fraction:
    """Return the exact value of a number as written: `4.944`, `1e-3`, `618/125`.

    Raises ValueError with the reason, as the end of a sentence about the text.
    """
    try:
        if len(text) <= MAX_DIGITS and abs(int(text.lower().partition("e")[2] or 0)) <= MAX_EXPONENT:
            return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError("is not a number such as 0.5 or 1/2") from None
    raise ValueError(f"must have at most {MAX_DIGITS} digits and an exponent to {MAX_EXPONENT}")


def quoted_number(text: str) -> Fraction:
    """Return the exact value of a number. Raises ValueError as `exact_number` does, with the text itself."""
    try:
        return exact_number(text)
    except ValueError as error:
        raise ValueError(f"{text[:MAX_DIGITS]!r} {error}") from None


def parse_exact(text: str) -> Fraction:
    """Return the exact number that a manifest writes as `5` or `1/3`. The manifest may come from an untrusted source.

    Raises ValueError or TypeError for anything else: `Fraction("1e999999999")` would take all memory.
    """
    if not EXACT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number such as 5 or 1/3")
    return Fraction(text)
