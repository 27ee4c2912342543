"""Exact numbers as a release tells them: it may come from anybody."""

from __future__ import annotations

import re
from fractions import Fraction

EXACT = re.compile("(0|[1-9][0-9]{0,999})(/[1-9][0-9]{0,999})?")


def told_number(text: str) -> Fraction:
    """Return a number as manifests write it, `5` or `1/3`. `1e999999999` would be a number too, and takes all memory.

    Raises ValueError, TypeError for anything else.
    """
    if not EXACT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a number such as 5 or 1/3")
    return Fraction(text)
