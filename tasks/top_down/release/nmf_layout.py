"""The layout of the Census Bureau's noisy measurement files (NMF): their folders, levels, queries and constraints.

Files that das-flows wrote have a footer besides, with the run that measured and the order of its blocks. By it they are
not taken for the Census Bureau's, and the estimate of them is that of the run, byte by byte: it depends on the order of
siblings, which geocodes do not keep.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.journal import MarkName
from spine.geography import IntArray
from spine.production import allocation
from spine.redistricting import TYPES
from spine.settings import Jurisdiction
from tasks.releases.manifest import mark_facts, mark_in
from tasks.top_down.run_plan import PRODUCTS, SCHEMAS

RowKind = Literal["DPQuery", "Constraint"]  # noisy answers, declared numbers
ROW_KINDS: tuple[RowKind, ...] = get_args(RowKind)
Codes: TypeAlias = NDArray[np.bytes_]
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")  # below the US
PRODUCT_WORDS: dict[str, str] = {"persons": "Person", "units": "Unit"}
QUERIES: dict[str, tuple[str, ...]] = {
    name: tuple(allocation(SCHEMAS[name].name, "us").queries["Block"]) for name in PRODUCTS
}
UNITS_OF_BOUND = 99_999  # the program's upper bound of persons is this many in every unit or facility
LOWER, UPPER, NO_MINORS, TOTAL = "hhgq_total_lb", "hhgq_total_ub", "nurse_nva_0", "total"
CONSTRAINTS: dict[str, dict[str, tuple[int, ...]]] = {  # with the shape of their values
    "persons": {LOWER: (TYPES,), UPPER: (TYPES,), NO_MINORS: (1,), TOTAL: (1,)},
    "units": {TOTAL: (1,)},
}
FOOTER, ORDER = "das-flows", "das-flows.order"  # keys of a footer
_RUN = re.compile(r"[\w.-]{1,200}")


def data_set_name(jurisdiction: Jurisdiction, product: str) -> str:
    """Return the name of the folder of a data set."""
    return f"{jurisdiction.upper()}_{PRODUCT_WORDS[product]}_PL_PROD"


def shapes(product: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of each query's values: 1 for an axis that is summed over."""
    schema = SCHEMAS[product]
    widths = {axis.name: len(axis) for axis in schema.axes} | {recode.name: len(recode) for recode in schema.recodes}
    asked = {query: schema.asked(query) for query in QUERIES[product]}
    return {
        query: tuple(widths[names[axis.name]] if axis.name in names else 1 for axis in schema.axes)
        for query, names in asked.items()
    }


def as_codes(digits: NDArray[np.uint8]) -> Codes:
    """Return rows of ASCII digits, (rows, width), as one array of text; the US has no digits."""
    rows, width = digits.shape
    return np.ascontiguousarray(digits).view(f"S{width}").ravel() if width else np.zeros(rows, "S1")


class Footer(NamedTuple):
    """The run of das-flows that measured. totals: declared population by state code."""

    run: str
    mark: MarkName | None
    totals: dict[int, int]

    def written(self) -> str:
        """Return the footer's text."""
        return json.dumps({"run": self.run, **mark_facts(self.mark), "state_totals": self.totals})


def read_footer(written: str) -> Footer:
    """Return a footer, which is untrusted. Raises ValueError."""
    try:
        content = json.loads(written)
        totals = {int(state): int(total) for state, total in content["state_totals"].items()}
        run, mark = str(content["run"]), mark_in(content)
    except (LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ValueError("a footer of das-flows without a run, mark and state totals") from None
    if not _RUN.fullmatch(run) or not all(0 <= total < 10**9 for total in totals.values()):
        raise ValueError("a run or a population that cannot be")
    return Footer(run, mark, totals)


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
