"""Exact sampling: inverse CDF by comparison of uniform 64-bit words with certified boundaries. Proof: sampler.md.

A word w holds the first 64 bits of a uniform real number U: U lies in [w, w+1) / 2^64. The draw is the k with
CDF(k-1) < U <= CDF(k). Let c_k = floor(2^64 CDF(k)) be the boundaries. If w equals no c_k, the draw is the smallest k
with c_k > w. If w equals a c_k, it is ambiguous: further words give further bits of U until the draw is settled.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privacy.noise.balls import FIRST_PRECISION, decide, working_precision
from privacy.noise.laws import Law

Words: TypeAlias = NDArray[np.uint64]
Refine: TypeAlias = Callable[[int, int], int]

WORD_BITS = 64
LONGEST_TABLE = 1 << 22  # boundaries
BLOCK = 1 << 14  # words handled at once: block, indices and draws together stay in a core's cache
_GUIDE_BITS = range(12, 21, 2)
_TOO_WIDE = "the noise is too wide for the sampler: its table would pass 2^22 boundaries; raise the budget"
_TOO_NARROW = "the noise is too narrow for the sampler: a budget this large leaves no noise; lower it"
_SEARCH = np.iinfo(np.int32).min  # mark of a guide cell that holds a boundary


class Sampler:
    """Sampler of a law from uniform words. Raises ValueError if its table would have more than 2^22 boundaries."""

    def __init__(self, law: Law) -> None:
        self.law = law
        self._boundaries, self._guide = _tables(law)
        self._shift = np.uint64(WORD_BITS - (len(self._guide).bit_length() - 1))

    def sample(self, words: Words, refine: Refine, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return one draw for each of the words (one dimension), in order; written to `out` if given.

        `refine(position, round)` gives further uniform 64-bit words, round = 0, 1, ..., for the ambiguous word at that
        position: about one word in 2^64 / (number of boundaries) needs one.
        """
        draws = np.empty(len(words), np.int64) if out is None else out
        cells = np.empty(min(BLOCK, len(words)), np.int64)
        for start in range(0, len(words), BLOCK):
            block, drawn = words[start : start + BLOCK], draws[start : start + BLOCK]
            cell = cells[: len(block)]
            np.right_shift(block, self._shift, out=cell.view(np.uint64))
            guided = self._guide.take(cell)
            drawn[:] = guided
            open_positions = np.flatnonzero(guided == _SEARCH)
            drawn[open_positions], ambiguous = self._search(block[open_positions])
            for position in start + open_positions[ambiguous]:
                draws[position] = settle(self.law, int(words[position]), partial(refine, int(position)))
        return draws

    def _search(self, words: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the draws of these words by binary search, and which of the words are ambiguous."""
        above = np.searchsorted(self._boundaries, words, side="right")  # the first boundary beyond the word
        return above - len(self._boundaries) // 2, self._boundaries[above - 1] == words


def settle(law: Law, word: int, more: Callable[[int], int]) -> int:
    """Return the draw of an ambiguous word: bits of U are added, 64 a round, until the ends of its interval give one k.

    `more(round)` gives the bits of rounds 0, 1, .... A round is decided at one precision or left open, so it ends
    whatever the values of the CDF are. The number of rounds has no bound; a second one has a probability below 2^-40.
    """
    bits, round = WORD_BITS, 0
    while True:
        word = word << WORD_BITS | more(round)
        bits, round = bits + WORD_BITS, round + 1
        if 0 < word < (1 << bits) - 1:  # otherwise U may still be arbitrarily near 0 or 1
            with working_precision(bits + WORD_BITS):
                low, high = (law.try_quantile(Fraction(end, 1 << bits)) for end in (word, word + 1))
            if low is not None and low == high:
                return low


def boundaries(law: Law) -> Words:
    """Return c_k = floor(2^64 CDF(k)) for k = -K-1, ..., K, sorted, where K is the first k with c_k = 2^64 - 1.

    The first of these 2K + 2 words is 0 and the last 2^64 - 1: these two cells hold all further boundaries as well.
    ValueError if there are more than 2^22.
    """
    # If P(X = k) >= 2^-64 at the longest table's end, the table is too long: fail now, not after millions of steps.
    if not law.pmf(LONGEST_TABLE // 2) * (1 << WORD_BITS) < 1:
        raise ValueError(_TOO_WIDE)
    below = np.array(decide(partial(_lower_boundaries, law)), dtype=np.uint64)
    # 2^64 CDF(k) = 2^64 - 2^64 CDF(-k-1), and neither is an integer: its floor is the complement of the other's.
    return np.concatenate([below[::-1], ~below])


def check_law(law: Law) -> None:
    """Raise ValueError, within seconds, if the noise of a law cannot be drawn.

    Call it for every law of a release before a budget is spent. It refuses a law whose table would pass 2^22
    boundaries, and one so narrow that its tail cannot be told from 0 (`decide` ends at 2^15 bits).
    """
    if not law.narrowest < law.parameter < law.widest:
        raise ValueError(_TOO_WIDE if law.parameter >= law.widest else _TOO_NARROW)
    with working_precision(FIRST_PRECISION):
        fits = law.tail_of_sum(1, LONGEST_TABLE // 2) * (1 << WORD_BITS) < 1
    if not fits:
        boundaries(law)


def _lower_boundaries(law: Law, precision: int) -> list[int] | None:
    """Return c_-1, c_-2, ... up to the first 0; None if the balls leave a floor open."""
    scale = 1 << WORD_BITS
    floors: list[int] = []
    for tail in islice(law.tails(precision), LONGEST_TABLE // 2):
        scaled = tail * scale
        floor = scaled.floor().unique_fmpz()
        if floor is None or scaled.contains_integer():
            return None
        floors.append(int(floor))
        if floors[-1] == 0:
            return floors
    raise ValueError(_TOO_WIDE)


@lru_cache(maxsize=512)  # laws of a TopDown run: levels x shares x query groups
def _tables(law: Law) -> tuple[Words, NDArray[np.int32]]:
    table = boundaries(law)
    guide = _guide(table)
    table.flags.writeable = guide.flags.writeable = False
    return table, guide


def _guide(table: Words) -> NDArray[np.int32]:
    """Return the draw of every word with given leading bits, or `_SEARCH` where a boundary lies among these words.

    Uses enough leading bits that only a few words in a hundred need a search, as far as a cache allows.
    """
    for bits in _GUIDE_BITS:
        cells = table >> np.uint64(WORD_BITS - bits)
        first = np.arange(1 << bits, dtype=np.uint64) << np.uint64(WORD_BITS - bits)
        guide = (np.searchsorted(table, first, side="right") - len(table) // 2).astype(np.int32)
        guide[cells] = _SEARCH
        if np.count_nonzero(guide == _SEARCH) << 6 <= len(guide):
            break
    return guide
