"""The second pass over a state: measure everything under the known root, and write the optimized spine as Parquet.

blocks/SS.parquet: one row per block: geocodes, the id of its geounit on every level, its share.
geounits/SS.parquet: one row per geounit above the blocks: level, id, parent's id, geocode, share, fan-out, standard
error.
Ids number the geounits of a level through the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from spine.entities import Entities
from spine.geocodes import digits, geocodes
from spine.geography import Geography, IntArray
from spine.hierarchy import Spine
from spine.noise import distinct_shares, replacement_cost
from spine.osed import EntityCosts, costs_at_top, overlap
from spine.variance import EntityVariances, Part, Root, Upward, cell_variance, downward, entity_sums, upward
from tasks.lifecycle.files import read_object
from tasks.records.arrow import text
from tasks.spine.first_pass import SpinePlan, build, reported_families
from tasks.spine.release_tables import NO_PARENT

Roots = Mapping[tuple[str, str], list[Root]]  # by spine and marginal, one root for each part


@dataclass(frozen=True)
class Family:
    """A state's entities of one family.

    codes, blocks, population: (entities,), as in `spine.entities`, with their numbers of blocks and persons. costs: by
    spine. variance: by spine and marginal, the (entities,) variance of a cell, valid for entities in this state only.
    shared: (entities,) whether the entity is in other states too. sums: by spine, marginal and part, the sums of shared
    entities that the root needs.
    """

    codes: IntArray
    blocks: IntArray
    population: IntArray | None
    shared: NDArray[np.bool_]
    costs: dict[str, EntityCosts] = field(default_factory=dict)
    variance: dict[tuple[str, str], Any] = field(default_factory=dict)
    sums: dict[tuple[str, str], list[EntityVariances]] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """The results of a state's second pass.

    families: every entity's distances and variances. errors: standard errors by spine and level, as (sum of squares,
    count, largest). shares: the distinct ones by level. cost: the largest cost of a replaced record below the root.
    """

    families: Mapping[str, Family]
    errors: Mapping[str, Mapping[str, tuple[float, int, float]]]
    shares: Mapping[str, list[Fraction]]
    cost: Fraction


def write_state(
    path: Path,
    plan: SpinePlan,
    roots: Roots,
    shared: Mapping[str, IntArray],
    first_ids: tuple[int, ...],
    largest: tuple[int, ...],
    out: Path,
) -> Written:
    """Measure the state whose blocks are at `path`, and write its two Parquet files under `out`.

    shared: by family, the codes of entities that are in other states too. first_ids: for each level of the optimized
    forest, the id of the state's first geounit. largest: the run's largest numbers in geocodes.
    """
    geography = read_object(path, Geography)
    spines = build(geography, plan)
    families, errors = measure(geography, spines, shared, plan, roots)
    spine = spines["optimized"]
    codes = geocodes(spine, geography, plan.settings, "optimized", largest)
    name = f"{int(geography.state[0]):02d}.parquet"
    _write(out / "blocks" / name, _block_rows(spine, geography.geocode[spine.order], codes[-1], first_ids))
    _write(out / "geounits" / name, _geounit_rows(spine, codes, errors["optimized"], first_ids, plan))
    sums = {
        which: {level: (float((se**2).sum()), len(se), float(se.max())) for level, se in of_levels.items()}
        for which, of_levels in errors.items()
    }
    return Written(families, sums, distinct_shares(spine), replacement_cost(spine, plan.allocation))


def geounit_errors(spine: Spine, parts: Sequence[Part], ups: Sequence[Upward], roots: Sequence[Root]) -> dict[str, Any]:
    """Return by level the (geounits,) standard errors of a marginal's cell; parts: the marginal's."""
    totals: list[Any] = [0.0] * len(spine.levels)
    for part, up, root in zip(parts, ups, roots, strict=True):
        variances = downward(spine, up, root)
        totals = [total + cell_variance(part, variance) for total, variance in zip(totals, variances, strict=True)]
    totals[-1] = totals[-1][ups[0].row_of_block]
    return dict(zip(spine.levels, map(np.sqrt, totals), strict=True))


def _block_rows(spine: Spine, geocode: Any, code: Any, first_ids: tuple[int, ...]) -> pa.Table:
    block = np.hstack([digits(geocode // 10**5, 11), digits(geocode % 10**4, 4)])
    columns = {"block": text(block), "geocode": text(code)}
    for level, name in enumerate(spine.levels[:-1]):
        columns[name.lower()] = pa.array((first_ids[level] + spine.geounit_of_block(level)).astype(np.int32))
    columns["share"] = _shares(spine, len(spine.levels) - 1)
    return pa.table(columns)


def _geounit_rows(
    spine: Spine, codes: list[Any], errors: Mapping[str, Any], first_ids: tuple[int, ...], plan: SpinePlan
) -> pa.Table:
    tables = []
    for level, name in enumerate(spine.levels[:-1]):
        number = len(spine.starts[level])
        above = NO_PARENT if plan.rooted else 0
        parent = first_ids[level - 1] + spine.parents[level] if level else np.full(number, above)
        tables.append(
            pa.table(
                {
                    "level": pa.array([name]).take(pa.array(np.zeros(number, np.int32))).dictionary_encode(),
                    "id": pa.array((first_ids[level] + np.arange(number)).astype(np.int32)),
                    "parent": pa.array(parent.astype(np.int32)),
                    "geocode": text(codes[level]),
                    "share": _shares(spine, level),
                    "fanout": pa.array(spine.children(level).astype(np.int32)),
                    "blocks": pa.array((spine.ends(level) - spine.starts[level]).astype(np.int32)),
                    f"se_{plan.marginals[0]}": pa.array(errors[name]),
                }
            )
        )
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _shares(spine: Spine, level: int) -> pa.Array:
    """Return exact shares as text, in a dictionary array of the few distinct ones."""
    distinct, kind = np.unique(spine.shares[level], return_inverse=True)
    words = [str(Fraction(n, spine.denominator)) for n in distinct.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(kind.astype(np.int32)), pa.array(words))


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(table, path, compression="zstd")


def measure(
    geography: Geography, spines: Mapping[str, Spine], shared: Mapping[str, IntArray], plan: SpinePlan, roots: Roots
) -> tuple[dict[str, Family], dict[str, dict[str, Any]]]:
    """Return every family on every spine and, by spine and level, the standard errors of the first marginal's cell.

    shared: by family, the codes of entities that are in several states.
    """
    families, errors, first = reported_families(geography, plan.settings), {}, plan.marginals[0]
    measured = {
        name: Family(
            family.codes,
            np.bincount(family.of_block, minlength=len(family.codes)),
            _persons(geography, family),
            np.isin(family.codes, shared[name]),
        )
        for name, family in families.items()
    }
    for which, spine in spines.items():
        parts = plan.parts(which)
        ups = {m: [upward(spine, part, plan.power) for part in parts[m]] for m in parts}
        errors[which] = geounit_errors(spine, parts[first], ups[first], roots[which, first])
        for name, family in families.items():
            found, pairs = measured[name], overlap(spine, family.of_block, len(family.codes))
            found.costs[which] = costs_at_top(spine, family, pairs)
            for marginal, of_parts in parts.items():
                sums = [entity_sums(spine, up, family, pairs) for up in ups[marginal]]
                found.variance[which, marginal] = sum(
                    cell_variance(part, each.under(root))
                    for part, each, root in zip(of_parts, sums, roots[which, marginal], strict=True)
                )
                found.sums[which, marginal] = [_rows(each, found.shared) for each in sums]
    return measured, errors


def _rows(sums: EntityVariances, chosen: NDArray[np.bool_]) -> EntityVariances:
    return EntityVariances(*(getattr(sums, f.name)[chosen] for f in fields(sums)))


def _persons(geography: Geography, family: Entities) -> IntArray | None:
    if geography.population is None:
        return None
    persons = np.bincount(family.of_block, weights=geography.population, minlength=len(family.codes))
    return persons.astype(np.int64)
