"""Keep what questions about areas need of a state: workers pass its published noisy answers up the spine, once."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spine.geography import BoolArray
from spine.gls.siblings import STATES, SiblingSums
from spine.workload import FloatArray
from tasks.inputs.block_codes import short_codes
from tasks.lifecycle.files import complete, remove, save_arrays, save_object
from tasks.lifecycle.private_folder import make_private
from tasks.lifecycle.workers import Workers
from tasks.top_down.estimate.descent import all_batches
from tasks.top_down.gls.margin_tables import columns_of
from tasks.top_down.gls.pass_up import information_folder, load_information
from tasks.top_down.run_plan import ProductName
from tasks.top_down.source import Source
from tasks.top_down.user_areas.tree import FOLDER, About

if TYPE_CHECKING:
    from spine.gls import Information
    from spine.top_down import Plan

KEPT_AT_MOST = 64  # states; the one that was not asked for longest goes first


def pass_up(source: Source, workers: Workers) -> None:
    """Pass the measurements of a source, which are open, up the spines of its states."""
    for states in source.at_hand(workers):
        batches = [batch for batch in all_batches(source, "Tract", "Block") if batch[1] in states]
        workers.map("pass up", source, pass_up_tracts, batches)
        whole = [pair for pair in source.product_states if pair[1] in states]
        workers.map("pass up states", source, pass_up_state, whole)


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


def pass_up_tracts(source: Source, product: ProductName, state: str, first: int, last: int) -> None:
    """Keep the blocks and block groups of the tracts first ... last - 1, and save the tracts' information."""
    measure = source.answers(product, state)  # before what imports numba
    from spine.gls.blue import sibling_sums
    from spine.gls.information import information_joined
    from spine.gls.upward import above, measured

    plan, columns, place = measure.plan, columns_of(product), _place(source, state) / product
    levels = plan.spine.levels
    tract, block = levels.index("Tract"), len(levels) - 1
    informed = []
    for start, stop in plan.batches(block - 1, *plan.children_of(tract, first, last)):
        blocks = measured(plan, measure, block, *plan.children_of(block - 1, start, stop))
        informed.append(above(plan, measure, blocks, start, stop))
        given = sibling_sums(plan, block - 1, start, stop, blocks)
        kept = _sums_of_parents(given) | _by_kind(plan, blocks.first, given) | {"sums": columns.sums(given.z)}
        save_arrays(place / levels[block] / f"{blocks.first:07d}", kept | {"at": np.array([start, blocks.first])})
    of_groups = information_joined(informed)
    _keep_level(plan, place, tract, first, last, of_groups)
    of_tracts = above(plan, measure, of_groups, first, last)
    arrays = {"at": np.array([tract]), "linear": of_tracts.linear, "precision": of_tracts.precision}
    save_arrays(information_folder(source, product, state, "Tract") / f"{first:07d}", arrays)


def pass_up_state(source: Source, product: ProductName, state: str) -> None:
    """Keep the tracts, counties and parts of a state, the whole state, and the codes of its blocks."""
    measure = source.answers(product, state)
    from spine.gls.blue import blue_states
    from spine.gls.upward import above

    plan, place = measure.plan, _place(source, state) / product
    tract = plan.spine.levels.index("Tract")
    information = load_information(source, product, state, "Tract", 0, len(plan.spine.starts[tract]))
    for level in range(tract - 1, -1, -1):
        number = len(plan.spine.starts[level])
        _keep_level(plan, place, level, 0, number, information)
        information = above(plan, measure, information, 0, number)
    _keep_level(plan, place, STATES, 0, 1, information)
    whole = blue_states(plan, information)
    save_arrays(place / "whole", {"x": whole.x, "variance": whole.variance})
    geocode = source.state(state).geography.geocode[plan.spine.order]
    save_arrays(place / "code", {"code": short_codes(geocode)})


def _keep_level(plan: Plan, place: Path, level: int, first: int, last: int, information: Information) -> None:
    """Keep the children of the geounits first ... last - 1 of a level; information: of exactly these."""
    from spine.gls.blue import sibling_sums

    given = sibling_sums(plan, level, first, last, information)
    some, z = _packed(given.z)
    kept = _sums_of_parents(given) | {"z_types": some, "z": z, "variance": given.variance}
    name = plan.spine.levels[level + 1]
    save_arrays(place / name / f"{information.first:07d}", kept | {"at": np.array([first, information.first])})


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
    bits = (plan.invariants.allowed(len(plan.spine.levels) - 1)[rows] << np.arange(8)).sum(axis=1)
    _, example, kind = np.unique((share * 256 + bits) * 2 + given.is_only_child, return_index=True, return_inverse=True)
    return {"kind": kind.ravel().astype(np.int32), "variance_of_kind": given.variance[example]}
