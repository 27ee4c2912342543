"""A declaration as a source: its one hierarchy, which is worked on as one part.

The noise of a query group is the stream `tda/NAME/LEVEL/QUERY`, NAME the declaration's; its row is the number of the
geounit on the level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from spine.geography import IntArray
from spine.top_down import Plan
from tasks.errors import Refused
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import Declared, DeclaredDesign, declared_of
from tasks.top_down.declared.tables import geounit_columns
from tasks.top_down.source import PLANNED, Descent, Names, Source

ALL = "all"  # the only part
CHILDREN, LEAVES = 4096, 1 << 16  # geounits that one piece estimates, about, and the leaves below these


class DeclarationSource(Source):
    """A source whose hierarchy and histogram are a declaration's."""

    @property
    def design(self) -> DeclaredDesign:
        """Load the design: what the declaration's public files hold, and the estimator."""
        return self._load(PLANNED, DeclaredDesign)

    @property
    def declared(self) -> Declared:
        """Load the declaration with its tables."""
        return declared_of(self)

    @property
    def name(self) -> str:
        """Return the declaration's name, which its histogram has in folders and in the noise's address."""
        return self.declared.declaration.form.name

    @property
    def folder(self) -> str:
        """Return the folder of a release."""
        return "declared"

    @property
    def product_states(self) -> Sequence[tuple[str, str]]:
        """Return the declaration's histogram with its only part."""
        return [(self.name, ALL)]

    @property
    def descents(self) -> tuple[Descent, ...]:
        """Return a stage for each level below the top."""
        levels = self.declared.plan.spine.levels
        return tuple(Descent(f"estimate {lower}", upper, lower, CHILDREN) for upper, lower in pairwise(levels))

    @property
    def limits(self) -> Sequence[tuple[int, int]]:
        """Return that a batch has so many leaves at most: its cells are nearly as many as its records."""
        return [(len(self.declared.hierarchy.spine.levels) - 1, LEAVES)]

    def plan(self, _product: Any, _state: str) -> Plan:
        """Return the plan of the estimation."""
        return self.declared.plan

    def read_at(self) -> Callable[[str, str, IntArray, IntArray], IntArray]:
        """Return noisy answers at addresses, for a wide declaration: `spine.wide.ReadAt`."""
        raise NotImplementedError

    def released(self, _product: Any, _state: str, level: str) -> tuple[str, Names]:
        """Return the file of a level's answers in a release's measurements, and what names its geounits there."""
        return f"{level}.parquet", names_of(self.declared, level)


def names_of(declared: Declared, level: str) -> Names:
    """Return what names the geounits of a level: the codes of its columns and of those above."""
    number = declared.hierarchy.spine.levels.index(level)
    columns = [column.name for column in geounit_columns(declared.declaration, level)]

    def names(first: int, _last: int, rows: IntArray) -> dict[str, pa.Array]:
        geounits, place = np.unique(rows + first, return_inverse=True)
        codes = declared.hierarchy.codes(number, geounits)
        return {name: pa.array(codes[name].distinct).take(pa.array(codes[name].number[place])) for name in columns}

    return names


def check_estimator(declared: Declared, estimator: Estimator) -> None:
    """Refuse least squares over the tree for a declaration that cannot have it."""
    if estimator == "gls" and (why := declared.hindrance):
        raise Refused(f"estimator gls: {why}; topdown takes any declaration")
