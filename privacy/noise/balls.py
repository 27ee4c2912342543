"""Ball arithmetic (Arb, through python-flint): every number carries a bound on its error, so a decision is proved.

A ball [m +/- r] is known to hold the true value. A comparison of balls is True only if it holds for every pair of
their points; a decision that the balls leave open is tried again with more digits.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TypeVar

from flint import arb, ctx, fmpq

T = TypeVar("T")

FIRST_PRECISION = 128
LAST_PRECISION = 1 << 15

# The precision of python-flint is one global setting. Balls are right at any precision, but a thread that lowers it
# could leave another thread's decision open for ever. So only one thread computes at a time.
_one_at_a_time = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Run this block's ball arithmetic with `bits` bits, and keep other threads from doing any meanwhile."""
    with _one_at_a_time, ctx.workprec(bits):
        yield


def decide(attempt: Callable[[int], T | None]) -> T:
    """Double the working precision until `attempt(bits)` returns an answer that is not None; return it.

    Raises ArithmeticError past `LAST_PRECISION` bits: balls can never decide a comparison of two equal numbers.
    """
    bits = FIRST_PRECISION
    while bits <= LAST_PRECISION:
        with working_precision(bits):
            answer = attempt(bits)
        if answer is not None:
            return answer
        bits *= 2
    raise ArithmeticError(f"the comparison is undecided at {LAST_PRECISION} bits: the two numbers seem to be equal")


def ball(x: Fraction | int) -> arb:
    """Return the rational x at the working precision."""
    return arb(fmpq(x.numerator, x.denominator))


def at_least(x: arb, y: arb) -> bool | None:
    """Return whether x >= y; None where the balls leave it open."""
    if x >= y:
        return True
    if x < y:
        return False
    return None
