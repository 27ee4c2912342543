"""The noise of one query: exact draws of its law at the addresses of its cells. This is what the stages call."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privacy.noise.laws import Law
from privacy.noise.randomness import Keystream, RunSecret, query_key
from privacy.noise.sampler import Refine, Sampler

CHUNK = 1 << 16  # words drawn at once


class QueryNoise:
    """Noise of row i, cell j of a query, which depends on nothing but the run, the query's name, i, j and the width.

    Drawn again, in any order, by any worker, it is the same noise: a retried task repeats itself. Name every query that
    is answered (level, stage, detail) differently: the same name and width give the same words.
    """

    def __init__(
        self, law: Law, secret: RunSecret, *, input_digest: str, configuration_digest: str, query: str
    ) -> None:
        self.law = law
        self._sampler = Sampler(law)
        self._key = partial(
            query_key, secret, input_digest=input_digest, configuration_digest=configuration_digest, query=query
        )

    def draw(self, rows: NDArray[np.int64], width: int = 1) -> NDArray[np.int64]:
        """Return noise int64[len(rows), width] of these rows of the domain, each with `width` cells; any order."""
        stream, further = self._streams(width)
        noise = np.empty((len(rows), width), np.int64)
        step = max(1, CHUNK // width)
        for first in range(0, len(rows), step):
            chunk = rows[first : first + step]

            def address(position: int, chunk: NDArray[np.int64] = chunk) -> int:
                row, cell = divmod(position, width)
                return int(chunk[row]) * width + cell

            words = _row_words(stream, chunk, width).reshape(-1)
            self._sampler.sample(words, _refine(further, address), out=noise[first : first + step].reshape(-1))
        return noise

    def draw_run(self, start: int, stop: int, asked: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return noise int64[stop - start] of rows start, ..., stop - 1 of one cell each: `draw` of them, faster.

        Where a row is not `asked`, the noise is 0: its word is passed over, and used for nothing.
        """
        stream, further = self._streams(1)
        noise = np.zeros(stop - start, np.int64)
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            part = noise[first - start : last - start]
            wanted = True if asked is None else asked[first - start : last - start]
            if np.any(wanted):
                self._sampler.sample(stream.words(first, last - first), _refine(further, first.__add__), out=part)
                part *= wanted
        return noise

    def _streams(self, width: int) -> tuple[Keystream, Callable[[int], Keystream]]:
        """Return the words of the query at this width, and the further words of the word at an address.

        These are a stream of their own under a second key, with the address as its nonce and the round as its word: no
        two of (row, cell, round) meet.
        """

        def further(address: int) -> Keystream:  # its key is derived when a word needs it, which hardly ever happens
            return Keystream(self._key(width=width, purpose="refinement"), nonce=address)

        return Keystream(self._key(width=width, purpose="noise")), further


def _row_words(stream: Keystream, rows: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
    """uint64[len(rows), width]: the words of rows. Rows that fill at least half of their span are cut out of it.

    The same words at the same addresses; a run of neighbours is cheaper than single groups.
    """
    low, high = int(rows.min()), int(rows.max())
    span = high - low + 1
    if span > 2 * len(rows):
        return stream.rows(rows, width)
    words = stream.words(low * width, span * width).reshape(span, width)
    return words if span == len(rows) and bool((rows[1:] > rows[:-1]).all()) else words.take(rows - low, axis=0)


def _refine(further: Callable[[int], Keystream], address: Callable[[int], int]) -> Refine:
    return lambda position, round: int(further(address(position)).words(round, 1)[0])
