"""Exact numbers as users write them in files and options. Those of a manifest are read by `lifecycle.manifest`."""

from __future__ import annotations

from fractions import Fraction

MAX_DIGITS, MAX_EXPONENT = 100, 100  # exact arithmetic on longer numbers takes memory and time


def exact_number(text: str) -> Fraction:
    """Return the exact value of a number as written: `4.944`, `1e-3`, `618/125`.

    Raises ValueError with the reason, as the end of a sentence about the text.
    """
    try:
        if len(text) <= MAX_DIGITS and abs(int(text.lower().partition("e")[2] or 0)) <= MAX_EXPONENT:
            return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError("is not a number") from None
    raise ValueError(f"must have at most {MAX_DIGITS} digits and an exponent to {MAX_EXPONENT}")


def quoted_number(text: str) -> Fraction:
    """Return the exact value of a number. Raises ValueError as `exact_number` does, with the text itself."""
    try:
        return exact_number(text)
    except ValueError as error:
        raise ValueError(f"{text[:MAX_DIGITS]!r} {error}") from None
