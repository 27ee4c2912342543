"""The noise of one query: exact draws of its law at the addresses of its cells. This is what the stages call."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privacy.noise.laws import Law
from privacy.noise.randomness import Keystream, RunSecret, query_key
from privacy.noise.sampler import Refine, Sampler

CHUNK = 1 << 16  # words drawn at once


class QueryNoise:
    """Noise of a query: that of row i, cell j depends only on the run, the query's name, i, j and the width.

    Any worker that draws it again, in any order, draws the same noise, so a retried task repeats itself. Give every
    query that is answered (level, stage, detail) its own name: the same name and width give the same words.
    """

    def __init__(
        self, law: Law, secret: RunSecret, *, input_digest: str, configuration_digest: str, query: str
    ) -> None:
        self.law = law
        self._sampler = Sampler(law)
        self._key = partial(
            query_key, secret, input_digest=input_digest, configuration_digest=configuration_digest, query=query
        )
        self._main: dict[int, Keystream] = {}  # by width

    def draw(self, rows: NDArray[np.int64], width: int = 1) -> NDArray[np.int64]:
        """Return noise int64[len(rows), width] of rows of the domain, in any order, each with `width` cells."""
        noise = np.empty((len(rows), width), np.int64)
        for part, words, refine in self._words(rows, width, width):
            self._sampler.sample(words, refine, out=noise[part].reshape(-1))
        return noise

    def add_to(
        self, answers: NDArray[np.int64], at: NDArray[np.int64], rows: NDArray[np.int64], width: int, stop: int
    ) -> None:
        """Add the noise of the first `stop` cells of `rows` to the rows `at`, ascending, of answers; equal to `draw`.

        A chunk is added while it is in a core's cache.
        """
        for part, words, refine in self._words(rows, width, stop):
            own = at[part]
            adjacent = own[-1] - own[0] == len(own) - 1
            drawn = self._sampler.sample(words, refine).reshape(len(own), stop)
            answers[slice(own[0], own[-1] + 1) if adjacent else own, :stop] += drawn

    def _words(
        self, rows: NDArray[np.int64], width: int, stop: int
    ) -> Iterator[tuple[slice, NDArray[np.uint64], Refine]]:
        """Yield the words of the first `stop` cells of rows, some rows at a time."""
        stream, further = self._streams(width)
        step = max(1, CHUNK // stop)
        for first in range(0, len(rows), step):
            chunk = rows[first : first + step]

            def address(position: int, chunk: NDArray[np.int64] = chunk) -> int:
                row, cell = divmod(position, stop)
                return int(chunk[row]) * width + cell

            words = _row_words(stream, chunk, width, stop).reshape(-1)
            yield slice(first, first + step), words, _refine(further, address)

    def draw_run(self, start: int, stop: int, asked: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return noise int64[stop - start] of rows start, ..., stop - 1, one cell each: equal to `draw`, but faster.

        Rows that are not `asked` get 0; their words are discarded.
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

    def draw_at(self, rows: NDArray[np.int64], cells: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return noise int64[n] of cell cells[i] of row rows[i], of rows with `width` cells: equal to `draw` there.

        Costs a block of the cipher for each address, whatever the width. Raises ValueError for a cell beyond the width.
        """
        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < width:
            raise ValueError(f"a row has cells 0 to {width - 1}")
        addresses = rows * width + cells
        stream, further = self._streams(width)
        noise = np.empty(len(addresses), np.int64)
        for first in range(0, len(addresses), CHUNK):
            chunk = addresses[first : first + CHUNK]
            refine = _refine(further, chunk.item)
            self._sampler.sample(stream.rows(chunk, 1).reshape(-1), refine, out=noise[first : first + CHUNK])
        return noise

    def _streams(self, width: int) -> tuple[Keystream, Callable[[int], Keystream]]:
        """Return the query's words at this width, and a function from an address to its refinement words.

        Refinement words come from a second key, with the address as nonce and the round as word number, so no two
        (row, cell, round) share a word.
        """
        if width not in self._main:
            self._main[width] = Keystream(self._key(width=width, purpose="noise"))

        def further(address: int) -> Keystream:  # its key is derived when a word needs it, which hardly ever happens
            return Keystream(self._key(width=width, purpose="refinement"), nonce=address)

        return self._main[width], further


def _row_words(stream: Keystream, rows: NDArray[np.int64], width: int, stop: int) -> NDArray[np.uint64]:
    """Return the words of the first cells of rows, uint64[len(rows), stop].

    Whole rows that fill at least half of their span are cut out of one run of neighbours: the same words, read faster.
    """
    low, high = int(rows.min()), int(rows.max())
    span = high - low + 1
    if stop < width or span > 2 * len(rows):
        return stream.rows(rows, width, stop)
    words = stream.words(low * width, span * width).reshape(span, width)
    return words if span == len(rows) and bool((rows[1:] > rows[:-1]).all()) else words.take(rows - low, axis=0)


def _refine(further: Callable[[int], Keystream], address: Callable[[int], int]) -> Refine:
    return lambda position, round: int(further(address(position)).words(round, 1)[0])
