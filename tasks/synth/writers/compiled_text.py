"""Rows of text from tables of words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spine.compiled import compiled

IntArray = NDArray[np.int64]


@compiled
def join_words(
    words: NDArray[np.uint8], starts: IntArray, offsets: IntArray, index: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Return rows, each the words of its columns one after the other.

    words: of all columns. starts: of each word, and the end. offsets: where a column's words begin among them. index:
    (columns, rows), which of its words.
    """
    columns, rows = index.shape
    size = 0
    for column in range(columns):
        for row in range(rows):
            word = offsets[column] + index[column, row]
            size += starts[word + 1] - starts[word]
    text, at = np.empty(size, np.uint8), 0
    for row in range(rows):
        for column in range(columns):
            word = offsets[column] + index[column, row]
            for place in range(starts[word], starts[word + 1]):
                text[at] = words[place]
                at += 1
    return text
