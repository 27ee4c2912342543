"""The margins of error of a run: the counts that have one, and how they are computed, saved, read and released.

They follow from noisy answers and declared invariants, so they cost no budget: a geounit's margins from its
information, those of places and other areas from the saved tree (tree.py).

```
noisy/PRODUCT/SS/margins/LEVEL/FIRST    estimates and standard errors of a batch of geounits
noisy/PRODUCT/SS/margins/FAMILY/0000000  the same of a family's areas
```

`margins/PRODUCT/LEVEL/SS.parquet` of a release holds those of the spine's geounits above the blocks,
`margins/PRODUCT/tabulation/...` and `margins/PRODUCT/entities/...` those of sums of blocks, of every total and table
cell, next to the released count (docs/spec/files.md#topdown-release).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privacy.noise.margins import Z95
from privacy.tables.histogram import Count
from spine.geography import BoolArray, FloatArray, IntArray
from spine.gls.entity_sums import entity_estimates
from spine.gls.grid import Blue
from spine.top_down.histogram import Histograms
from tasks.lifecycle.files import complete, read_object, save_object
from tasks.lifecycle.staging import write_table
from tasks.lifecycle.workers import Workers
from tasks.top_down.areas import FOLDERS, areas
from tasks.top_down.blocks import BlockSource, geounits
from tasks.top_down.estimate.gls.tree import (
    IN_NATION,
    Tree,
    blue_below,
    columns_of,
    keep_whole,
    load_information,
    tree_folder,
)
from tasks.top_down.run_plan import SCHEMAS, US, counts_of
from tasks.top_down.source import FIRST, Branch

if TYPE_CHECKING:
    pass

MARGINS = "margins"
PLACES = 3  # decimal places in files: far below any standard error
COVERED = ("total", "race", "voting age by race", "occupied")  # counts whose coverage is near 95 % (docs/top-down.md)
LAW = (
    "The estimate is the best linear unbiased one from all measurements of the tree: the true count plus a weighted "
    "sum of independent draws of known laws. That nobody under 18 is in a nursing facility is not used. Its standard "
    "error is exact; its law is normal, except for a trace of the draws being whole numbers and, under pure DP, of "
    "the weight of single draws. Released counts are whole, not negative, and add up, which no formula covers: that "
    "they lie within the margin, 1.96 standard errors of the estimate, in about 95 of 100 cases or more was measured "
    "on synthetic data (das tda accuracy)."
)
WITHOUT = (
    "Where there is no margin, 1.96 standard errors would not be the release's error: sums that cut block groups of "
    "the spine, voting age, Hispanic, and residents of group quarters as single sums; blocks are left out. The release "
    "is far better there than the unbiased estimate, for it counts nobody below zero. The estimate and its standard "
    "error hold in every row."
)


def find_margins(source: BlockSource, workers: Workers) -> None:
    """Save the margins of every product and state, after information was passed up."""
    branches = [(branch,) for branch in source.branches]
    if source.nations:
        workers.map("margins of states", source, of_states, [(nation,) for nation in source.nations])
    workers.map("margins", source, below_tracts, source.batches(source.descents[-1]))
    workers.map("margins of states", source, above_tracts, branches)
    workers.map("margins of areas", source, of_areas, branches)


def of_states(source: BlockSource, nation: Branch) -> None:
    """Save the estimates of whole states with the nation's measurement, and the margins of the nation if asked for."""
    plan = source.plan(nation)  # before importing numba
    from spine.gls.blue import blue_nation, blue_states

    whole = blue_nation(plan, load_information(source, nation, US, 0, 1))
    states = blue_states(plan, load_information(source, nation, "State", 0, plan.spine.blocks), whole)
    if source.design.pl94:
        save_level(source, nation, US, whole)
    for row, branch in enumerate(source.branches_of(nation.product)):
        keep_whole(tree_folder(source, branch), states.only(row, row + 1), IN_NATION)


def _parts(source: BlockSource, branch: Branch) -> Blue:
    """Return the estimates of a state's parts."""
    plan = source.plan(branch)  # before importing numba
    from spine.gls.blue import blue_roots

    own = load_information(source, branch, "State", 0, len(plan.spine.starts[0]))
    return blue_roots(plan, own, Tree(tree_folder(source, branch), ()).whole)


def below_tracts(source: BlockSource, branch: Branch, first: int, last: int) -> None:
    """Save the margins of the tracts first ... last - 1 and of their block groups."""
    if (margins_folder(source, branch, "Block_Group") / f"{first:07d}").exists():
        return
    spine = source.spine(branch)
    county = spine.parents[spine.levels.index("Tract")][[first, last - 1]] + (0, 1)
    counties = blue_below(source, branch, _parts(source, branch)).only(*county.tolist())
    tracts = blue_below(source, branch, counties).only(first, last)
    save_level(source, branch, "Tract", tracts)
    save_level(source, branch, "Block_Group", blue_below(source, branch, tracts), first)


def above_tracts(source: BlockSource, branch: Branch) -> None:
    """Save the margins of a state's parts and counties."""
    if (margins_folder(source, branch, "County") / FIRST).exists():
        return
    parts = _parts(source, branch)
    save_level(source, branch, "State", parts)
    save_level(source, branch, "County", blue_below(source, branch, parts))


def of_areas(source: BlockSource, branch: Branch) -> None:
    """Save the margins of the areas of every family that a state has."""
    design = source.design
    of_state = list(
        areas(source.state(branch.name).geography, design.settings[branch.product], whole_state=design.pl94)
    )
    folders = [margins_folder(source, branch, family.name) / FIRST for family in of_state]
    if all(folder.exists() for folder in folders):
        return
    columns, spine = columns_of(branch.product, design.pl94), source.spine(branch)
    tree = Tree(tree_folder(source, branch), spine.levels)
    *_, tops = tree.climb(columns, [family.of_block[spine.order] for family in of_state])
    for folder, top in zip(folders, tops, strict=True):
        _, estimate, error, groups_cut = entity_estimates(columns, tree.whole, top)  # of all areas: each has blocks
        save_object(folder, Margins(estimate, error, groups_cut > 0))


def margins_folder(source: BlockSource, branch: Branch, name: str) -> Path:
    """Return the folder of the margins of a level or family."""
    return source / f"noisy/{branch}/{MARGINS}/{name}"


def save_level(source: BlockSource, branch: Branch, level: str, found: Blue, batch: int | None = None) -> None:
    """Save the margins of a batch of geounits, under its first geounit or the number of the batch."""
    columns = columns_of(branch.product, source.design.pl94)
    number = found.first if batch is None else batch
    margins = columns.sums(found.x), np.sqrt(columns.variances(found.variance)), np.zeros(len(found), bool)
    save_object(margins_folder(source, branch, level) / f"{number:07d}", Margins(*margins))


class Margins(NamedTuple):
    """Unbiased estimates and standard errors of a level's geounits, or of a family's areas.

    estimate, error: (n, columns). cut: (n,) whether an area holds block groups of the spine in part; no geounit does.
    """

    estimate: FloatArray
    error: FloatArray
    cut: BoolArray


def load_margins(source: BlockSource, branch: Branch, name: str) -> Margins | None:
    """Read the margins of a level or family; None without margins."""
    folder = margins_folder(source, branch, name)
    if not folder.exists():
        return None
    batches = [read_object(path, Margins) for path in complete(folder)]
    return Margins(*map(np.concatenate, zip(*batches, strict=True)))


def write_margins(
    source: BlockSource,
    branch: Branch,
    level: str,
    staged: Path,
    name: str,
    codes: NDArray[np.uint8],
    released: Histograms,
) -> None:
    """Write a row for each count of the geounits of a level, or areas of a family, if the run computed their margins.

    codes, released: their codes and histograms.
    """
    margins = load_margins(source, branch, level)
    if margins is None:
        return
    counts, (n, width) = counts_of(branch.product, source.design.pl94), margins.estimate.shape
    column = pa.array(np.tile(np.arange(width, dtype=np.int8 if width < 128 else np.int16), n))
    margin = pa.array(np.round(Z95 * margins.error, PLACES).ravel(), mask=~is_covered(counts, margins.cut).ravel())
    table = pa.table(
        {
            "geounit": geounits(codes, np.repeat(np.arange(n), width)),
            "count": pa.DictionaryArray.from_arrays(column, pa.array([one.name for one in counts])),
            "released": pa.array(released.sums(SCHEMAS[branch.product].matrix(counts)).astype(np.int32).ravel()),
            "margin": margin,
            "estimate": pa.array(np.round(margins.estimate, PLACES).ravel() + 0.0),
            "standard_error": pa.array(np.round(margins.error, PLACES).ravel()),
        }
    )
    write_table(staged, f"margins/{name}", table)


def describe_margins(source: BlockSource, product: str) -> dict[str, Any]:
    """Return the manifest's entry: by level and family, the mean standard errors, and how many counts have a margin.

    mean_with_margin: the mean over the counts with a margin. Empty without margins.
    """
    counts = counts_of(product, source.design.pl94)
    every = np.arange(len(counts))
    covered = np.flatnonzero(is_covered(counts, np.zeros(1, bool)))

    def means(error: FloatArray, columns: IntArray) -> dict[str, float]:
        mean = error.mean(axis=0)
        return {counts[at].name: round(float(mean[at]), PLACES) for at in columns.tolist()}

    branches = source.branches_of(product)
    rows = []
    for name in (US, *source.spine(branches[0]).levels[:-1], *FOLDERS):
        own = [Branch(product, US)] if name == US else branches
        found = [part for branch in own if (part := load_margins(source, branch, name)) is not None]
        if found:
            error, cut = (np.concatenate([getattr(part, of) for part in found]) for of in ("error", "cut"))
            whole = error[~cut]
            row = {"of": name, "geounits": len(error), "with_margin": len(whole)}
            narrow = means(whole, covered) if len(whole) else {}
            rows.append({**row, "mean_standard_error": means(error, every), "mean_with_margin": narrow})
    return {"law": LAW, "without": WITHOUT, "mean_standard_error": rows} if rows else {}


def is_covered(counts: Sequence[Count], cut: BoolArray) -> BoolArray:
    """Return (n, counts): whether a count has a margin, one that covers its released error.

    See docs/top-down.md#margins-of-error. A table cell has one if it is such a count under another name.
    cut: (n,) as in `Margins`.
    """
    measured = [count.where for count in counts if count.quantity in COVERED]
    covered: BoolArray = ~cut[:, None] & np.array([count.where in measured for count in counts])
    return covered
