"""Noisy counts of an array in one call, for use outside a run. Releases draw by QueryNoise in an authorized run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.noise.exact import Exact
from privacy.noise.laws import Law, SymmetricLaw
from privacy.noise.margins import margin_of_error
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from privacy.noise.sampler import check_law

LARGEST_COUNT = 1 << 62  # with any noise that can be drawn it still fits an int64


@dataclass(frozen=True)
class Measured:
    """Noisy counts and the law of their noise.

    counts: int64 in the shape of the exact counts; some may be negative. law: the noise law of each; draws are
    independent.
    """

    counts: NDArray[np.int64]
    law: Law

    def margin(self, cells: int = 1, alpha: Exact = Fraction(1, 20)) -> int:
        """Return the margin of error of a count, or of a sum of `cells` of them; in counts, proved. 95%: alpha 1/20."""
        return margin_of_error(self.law, cells, alpha)


def measure(counts: Any, law: Law, *, secret: RunSecret | None = None, query: str = "") -> Measured:
    """Add independent exact noise of a law to every count of an array.

    Without a secret every call draws anew from the operating system. With a secret, the noise follows from the secret,
    the law, the query's name and the counts: repeating a call gives the same answer and spends nothing more, while
    changed counts get other noise. Give each array measured under a secret its own query name: equal arrays under one
    name get equal answers. Nothing is charged to a ledger; the caller adds up what the calls spend.

    counts: whole numbers, as a numpy array of integers of any shape or as nested lists; no floats. law: the noise law,
    as `law(definition, budget, stability)` returns it. secret: 256 confidential bits; whoever has them can remove the
    noise. query: the name of what is measured; needed with a secret.

    Raises ValueError for counts that are not whole numbers or are beyond 2^62, a law that cannot be drawn from, or a
    secret without a query.
    """
    whole = whole_counts(counts)
    if not isinstance(law, SymmetricLaw):
        raise ValueError(f"the noise is a law, as law('zcdp', Fraction('0.159'), 9) returns, not {type(law).__name__}")
    check_law(law)
    if secret is not None and not query:
        raise ValueError("noise from a given secret needs a name: query='…', another for each array")
    bound = {
        "input_digest": sha256(f"{whole.shape}".encode() + whole.tobytes()).hexdigest(),
        "configuration_digest": f"{law.name} {law.parameter}",
    }
    noise = QueryNoise(law, secret or RunSecret.generate(), **bound, query=f"measure/{query}")
    return Measured(whole + noise.draw_run(0, whole.size).reshape(whole.shape), law)


def whole_counts(counts: Any) -> NDArray[np.int64]:
    """Return counts as int64. Raises ValueError for counts that are not whole numbers or are too large."""
    if isinstance(counts, np.ma.MaskedArray):
        raise ValueError("counts must not be masked: fill them, or measure the unmasked ones")
    try:
        array = np.asarray(counts)
    except ValueError:
        array = np.asarray(None)  # lists of several lengths
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"counts must be whole numbers (an array of integers), not of type {array.dtype}")
    if array.size and not -LARGEST_COUNT <= int(array.min()) <= int(array.max()) <= LARGEST_COUNT:
        raise ValueError("counts must lie between -2^62 and 2^62")
    return np.ascontiguousarray(array, np.int64).reshape(array.shape)
