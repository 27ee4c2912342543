"""Noisy tables of published groups, as suppression leaves them and the coterminous fix and the release take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tasks.detailed_dhca.details import AGE4, AGE23, WIDTHS
from tasks.lifecycle.files import open_array


@dataclass(frozen=True)
class Published:
    """Noisy tables of the published groups of a level.

    Attributes
    ----------
    group : int64 array, sorted
        Group number in the level's domain.
    detail : uint8 array
        The detail of each group's table.
    total : int64 array
        Its T1 count.
    cells : int64 array
        The cells of the sex-by-age tables, one table after the other in the order of the groups.
    noise_of : uint8 array
        The level whose noise a group's counts have, by its place among the run's levels: its own, but for a
        coterminous recipient.
    """

    group: NDArray[np.int64]
    detail: NDArray[np.uint8]
    total: NDArray[np.int64]
    cells: NDArray[np.int64]
    noise_of: NDArray[np.uint8]

    @property
    def widths(self) -> NDArray[np.int64]:
        """The number of sex-by-age cells of each group."""
        return cell_widths(self.detail)

    def take(self, rows: NDArray[np.int64]) -> Self:
        """These rows with their cells, in this order."""
        widths = self.widths
        starts = (np.cumsum(widths) - widths)[rows]
        ends = np.cumsum(widths[rows])
        begins = ends - widths[rows]
        cell = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - begins, widths[rows])
        return type(self)(**{name: array[cell if name == "cells" else rows] for name, array in self.arrays().items()})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields by name, for `save_arrays`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Estimated(Published):
    """Estimates of the published groups of a level: of totals and cells, which have the names of the counts here.

    Attributes
    ----------
    margin : int64 array
        The 95% margin of error of each total.
    dropped : bool array
        The groups that the ancestor test leaves out of the estimates.
    """

    margin: NDArray[np.int64]
    dropped: NDArray[np.bool_]


def cell_widths(detail: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Sex-by-age cells of a table at each detail: 8, 18 or 46, and none for a total."""
    return np.where((detail >= AGE4) & (detail <= AGE23), WIDTHS[detail], 0)


def load_published(folders: Sequence[Path]) -> Published:
    """Return the published groups that lie in these folders."""
    return load_kind(folders, Published)


Kind = TypeVar("Kind", bound=Published)


def load_kind(folders: Sequence[Path], kind: type[Kind]) -> Kind:
    """Return the published groups, or their estimates, that lie in these folders."""
    read = [kind(*(open_array(folder, name) for name in kind.__dataclass_fields__)) for folder in folders]
    return kind.join([_of_no_group(kind), *read])


def _of_no_group(kind: type[Kind]) -> Kind:
    types = {"detail": np.uint8, "noise_of": np.uint8, "dropped": np.bool_}
    return kind(*(np.zeros(0, types.get(name, np.int64)) for name in kind.__dataclass_fields__))
