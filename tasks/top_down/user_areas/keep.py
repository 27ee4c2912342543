"""Keep what questions about areas need of a state, while its published noisy answers pass up the spine, once."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spine.geography import BoolArray
from spine.gls.siblings import STATES, SiblingSums
from spine.redistricting import TYPES
from spine.workload import FloatArray
from tasks.inputs.block_codes import short_codes
from tasks.lifecycle.files import complete, remove, save_arrays, save_object
from tasks.lifecycle.private_folder import make_private
from tasks.top_down.estimate.gls.margin_tables import columns_of
from tasks.top_down.estimate.gls.pass_up import Keeper
from tasks.top_down.source import Source
from tasks.top_down.user_areas.tree import FOLDER, About

if TYPE_CHECKING:
    from spine.gls import Information
    from spine.top_down import Plan

KEPT_AT_MOST = 64  # states; the one that was not asked for longest goes first


def keep(source: Source, home: Path, digests: dict[str, str]) -> None:
    """Keep the states of a run that were passed up; digests: by state."""
    folder = home / FOLDER
    make_private(home, may_be_link=True)
    make_private(folder)
    for state, digest in digests.items():
        levels = {product: source.spine(product, state).levels for product in source.design.products}
        total = source.state(state).totals[int(state)]
        save_object(_place(source, state) / "about", About(state, levels, total))
        try:
            os.replace(_place(source, state), folder / digest)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another question kept it meanwhile
                raise
        (folder / digest).chmod(0o700)
    _forget(folder)


def _forget(folder: Path) -> None:
    """Remove the states that were not asked for longest."""
    kept = sorted(complete(folder), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[KEPT_AT_MOST:]:
        remove(path)


def _place(source: Source, state: str) -> Path:
    return source / f"noisy/{FOLDER}/{state}"


class AreasKeeper(Keeper):
    """Keeps every geounit of a state with the sums of its parent's children; of blocks only the sums of columns."""

    @property
    def _place(self) -> Path:
        return _place(self.source, self.state) / self.product

    def add(self, level: int, first: int, last: int, children: Information) -> None:
        """Keep the children of the geounits first ... last - 1 of a level, or (STATES) of the whole state."""
        from spine.gls.blue import sibling_sums

        given = sibling_sums(self.plan, level, first, last, children)
        if children.level == len(self.plan.spine.levels) - 1:
            own = _by_kind(self.plan, children.first, given) | {"sums": columns_of(self.product).sums(given.z)}
        else:
            some, z = _packed(given.z)
            own = {"z_types": some, "z": z, "variance": given.variance}
        name = f"{self.plan.spine.levels[children.level]}/{children.first:07d}"
        at = {"at": np.array([first, children.first])}
        save_arrays(self._place / name, _sums_of_parents(given) | own | at)

    def end(self, parts: Information) -> None:
        """Keep the parts of the state, the whole state, and the codes of its blocks."""
        from spine.gls.blue import blue_states

        self.add(STATES, 0, 1, parts)
        whole = blue_states(self.plan, parts)
        save_arrays(self._place / "whole", {"x": whole.x, "variance": whole.variance})
        geocode = self.source.state(self.state).geography.geocode[self.plan.spine.order]
        save_arrays(self._place / "code", {"code": short_codes(geocode)})


def _sums_of_parents(given: SiblingSums) -> dict[str, np.ndarray]:
    some, b = _packed(given.b)
    return {
        "children": np.bincount(given.parent),
        "is_only_child": given.is_only_child,
        "b_types": some,
        "b": b,
        "below": given.below,
    }


def _packed(x: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return which types of living quarters each geounit has, and the values of these."""
    some = (x != 0).any(axis=(2, 3))
    return some, x[some]


def _by_kind(plan: Plan, first: int, given: SiblingSums) -> dict[str, np.ndarray]:
    """Return the variances of blocks by kind; blocks of one kind have the same."""
    rows = slice(first, first + len(given.parent))
    share = plan.spine.shares[-1][rows]
    bits = (plan.invariants.allowed(len(plan.spine.levels) - 1)[rows] << np.arange(TYPES)).sum(axis=1)
    kinds = (share * 2**TYPES + bits) * 2 + given.is_only_child
    _, example, kind = np.unique(kinds, return_index=True, return_inverse=True)
    return {"kind": kind.ravel().astype(np.int32), "variance_of_kind": given.variance[example]}
