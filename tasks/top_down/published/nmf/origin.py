"""What the footers of files that das-flows wrote hold beside the Bureau's layout: which run measured, and its order.

By these files are not taken for the Census Bureau's, and the estimate of them is that of the run, byte by byte: it
depends on the order of siblings, which geocodes do not keep.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from typing import NamedTuple

import numpy as np

from privacy.accounting.journal import MarkName
from spine.geography import IntArray
from tasks.lifecycle.manifest import mark_facts, mark_in

ORIGIN, ORDER = "das-flows", "das-flows.order"  # keys of a footer
_RUN = re.compile(r"[\w.-]{1,200}")


class Origin(NamedTuple):
    """The run of das-flows that measured. totals: declared population by state code."""

    run: str
    mark: MarkName | None
    totals: dict[int, int]

    def written(self) -> str:
        """Return the text of a footer."""
        return json.dumps({"run": self.run, **mark_facts(self.mark), "state_totals": self.totals})


def read_origin(written: str) -> Origin:
    """Return what a footer holds, which anybody may have written. Raises ValueError."""
    try:
        content = json.loads(written)
        totals = {int(state): int(total) for state, total in content["state_totals"].items()}
        run, mark = str(content["run"]), mark_in(content)
    except (LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ValueError("a footer of das-flows that is damaged") from None
    if not _RUN.fullmatch(run) or not all(0 <= total < 10**9 for total in totals.values()):
        raise ValueError("a run or a population that cannot be")
    return Origin(run, mark, totals)


def written_order(rank: IntArray) -> str:
    """Return the text of a footer; rank: the numbers in the spine of blocks that are sorted by their geocodes."""
    shifts = np.argsort(rank) - np.arange(len(rank))
    return b64encode(zlib.compress(shifts.astype("<i4").tobytes())).decode()


def read_order(written: str, blocks: int) -> IntArray:
    """Return for each block in the order of the spine its number among the sorted ones. Raises ValueError."""
    try:
        found = zlib.decompressobj().decompress(b64decode(written), 4 * blocks + 1)
        order: IntArray = np.frombuffer(found, "<i4").astype(np.int64) + np.arange(blocks)
        if np.array_equal(np.sort(order), np.arange(blocks)):
            return order
    except (zlib.error, ValueError):  # other bytes, or not so many
        pass
    raise ValueError("no order of the blocks")
