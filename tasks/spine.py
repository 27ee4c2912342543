"""The geographic spine of a run: from a block table to the directory that holds its optimized spine and its report.

Public data only. The stages are plain functions of paths and settings, so that they run in this process, in a Dask
worker, or spread over workers by state.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from spine.allocations import Allocation, allocation_for
from spine.build import CONVENTIONAL
from spine.noise import Noise, noise, record_cost
from spine.settings import SpineSettings
from spine.variance import Root, cell_variance
from tasks.errors import Refused
from tasks.spine_columns import GRFC, Columns, needed
from tasks.spine_geography import read_geography
from tasks.spine_join import class_table, entity_table, level_table, roots, shared_codes
from tasks.spine_report import write_report
from tasks.spine_second_pass import Written, write_state
from tasks.spine_state import SPINES, Plan, State, save_geography, survey

# Cells whose standard errors are reported unless others are asked for; the first is given for every geounit.
MARGINALS = {
    "pl94-persons": ("total", "hispanic*cenrace"),
    "pl94-units": ("detailed",),
    "dhc-persons": ("hispanic*sex",),
    "dhc-units": ("tenvacgq",),
}

Each = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterable[Any]]


@dataclass(frozen=True)
class SpineSummary:
    """What a spine directory holds, as spine.json says it.

    geounits: by spine and level. classes: rows of classes.csv. cost: the most that a replaced record costs (rho or
    epsilon), which is the budget when every share is spent. notes: what was left out or is not known.
    """

    product: str
    region: str
    variant: str
    mechanism: str
    states: tuple[str, ...]
    blocks: int
    geounits: Mapping[str, Mapping[str, int]]
    budget: Fraction
    cost: Fraction
    classes: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    out: Path

    def as_json(self) -> dict[str, Any]:
        """Plain values, fractions and paths as text."""
        return {**asdict(self), "budget": str(self.budget), "cost": str(self.cost), "out": str(self.out)}


@dataclass(frozen=True)
class Prepared:
    """A run whose blocks lie by state in `partial`/scratch. states: their codes, ascending."""

    out: Path
    partial: Path
    plan: Plan
    states: tuple[int, ...]
    notes: tuple[str, ...]
    county: int | None

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """Leave nothing half-made behind when a stage fails."""
        try:
            yield
        except BaseException:
            shutil.rmtree(self.partial, ignore_errors=True)
            raise

    @property
    def paths(self) -> list[Path]:
        """The blocks of each state."""
        return [self.partial / "scratch" / f"{state:02d}.npz" for state in self.states]

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of each spine, root first."""
        settings = self.plan.settings
        plain = CONVENTIONAL if settings.region == "us" else CONVENTIONAL[1:]
        return {"conventional": plain, "aian": plain, "optimized": settings.levels}


def spine_columns_missing(grfc_header: list[str], settings: SpineSettings) -> list[str]:
    """The GRF-C columns that a spine with these settings needs and this header lacks."""
    return [name for name in needed(GRFC, settings) if name not in grfc_header]


def optimize_spine(
    geography: Path | str,
    out: Path,
    settings: SpineSettings,
    *,
    allocation: Allocation | None = None,
    columns: Columns | None = None,
    states: Sequence[int] = (),
    marginals: Sequence[str] = (),
    county: str | None = None,
    extra: str | None = None,
    each: Each | None = None,
) -> SpineSummary:
    """Build, measure and optimize the spine of a block table and write it to the directory `out`.

    geography: GRF-C, P.L. 94-171 or CSV, a file or directory (`tasks.spine_geography`). allocation: of the privacy-loss
    budget; the production run's where none is given. states: only these FIPS codes. marginals: cells to report standard
    errors of. county: the five-digit county to draw. extra: a table of prims and living quarters by block
    (`tasks.spine_extra`). each: how to map a function over states; one after the other here.
    Refused for bad input, and for an `out` that holds something.
    """
    prepared = prepare(
        geography,
        out,
        settings,
        allocation=allocation,
        columns=columns,
        states=states,
        marginals=marginals,
        county=county,
        extra=extra,
    )
    each = each or in_turn
    with prepared.discarding():
        surveyed = list(each(survey, [(path, prepared.plan) for path in prepared.paths]))
        return finish(prepared, surveyed, each)


def in_turn(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
    """Call a function with each tuple of arguments, in this process."""
    return (function(*each) for each in arguments)


def on_client(client: Any) -> Each:
    """Call functions on a Dask client's workers; they must see the paths (a shared file system)."""

    def each(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterable[Any]:
        found: list[Any] = client.gather([client.submit(function, *one, pure=False) for one in arguments])
        return found

    return each


def prepare(
    geography: Path | str,
    out: Path,
    settings: SpineSettings,
    *,
    allocation: Allocation | None = None,
    columns: Columns | None = None,
    states: Sequence[int] = (),
    marginals: Sequence[str] = (),
    county: str | None = None,
    extra: str | None = None,
) -> Prepared:
    """Read and check the geography, and lay its blocks out by state."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} exists and is not empty")
    blocks, notes = read_geography(geography, settings, columns, states, extra)
    codes, first = np.unique(blocks.state, return_index=True)
    allocation = allocation or allocation_for(settings)
    if tuple(allocation.levels) != settings.levels or allocation.mechanism != settings.mechanism:
        raise Refused(
            f"the allocation is for {allocation.mechanism} on {', '.join(allocation.levels)}; "
            f"the settings are for {settings.mechanism} on {', '.join(settings.levels)}"
        )
    plan = Plan(settings, allocation, tuple(marginals) or MARGINALS[settings.product], rooted=len(codes) == 1)
    try:
        plan.parts(settings.levels)
    except ValueError as unknown:
        raise Refused(str(unknown)) from unknown
    if county is not None and not (county.isdigit() and (blocks.county == int(county)).any()):
        raise Refused(f"county {county} has no block here")
    pa.default_memory_pool().release_unused()  # what the reader took, on the way to states one by one
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "scratch").mkdir(parents=True)
    prepared = Prepared(out, partial, plan, tuple(codes.tolist()), tuple(notes), int(county) if county else None)
    with prepared.discarding():
        for path, start, stop in zip(prepared.paths, first, [*first[1:], len(blocks)], strict=True):
            save_geography(path, blocks.take(np.arange(start, stop)))
    return prepared


def finish(prepared: Prepared, surveyed: Sequence[State], each: Each) -> SpineSummary:
    """Put the states under their root, write everything, and move the whole to its place."""
    plan, levels, partial = prepared.plan, prepared.levels, prepared.partial
    found = roots(surveyed, plan, levels)
    written = list(each(write_state, _second_pass(prepared, surveyed, found)))
    tops = {which: sum(state.geounits[which][0] for state in surveyed) for which in SPINES}
    entities = entity_table([state.families for state in written], tops, plan, found, levels)
    classes = class_table(entities, plan.marginals)
    level_rows = _with_errors(level_table(surveyed, plan, levels), prepared, written, found)
    noises = noise(plan.allocation, _all_shares(prepared, written))
    cost = max(each.cost for each in written)
    if not plan.rooted:
        _write_root(prepared, surveyed, found["optimized"][plan.marginals[0]])
        top = levels["optimized"][0]
        cost += record_cost(plan.allocation, [row.parameter for row in noises if row.level == top])
    entities.to_csv(partial / "entities.csv", index=False)
    classes.to_csv(partial / "classes.csv", index=False)
    level_rows.to_csv(partial / "levels.csv", index=False)
    _noise_table(noises).to_csv(partial / "noise.csv", index=False)
    summary = _summary(prepared, surveyed, classes, cost)
    (partial / "spine.json").write_text(json.dumps(_manifest(summary, plan), indent=2) + "\n")
    county = prepared.county or min(state.county for state in surveyed)[-1]
    write_report(partial / "spine.html", summary, plan, entities, classes, level_rows, prepared.paths, county)
    shutil.rmtree(partial / "scratch")
    if prepared.out.exists():
        prepared.out.rmdir()
    partial.rename(prepared.out)
    return summary


def _second_pass(
    prepared: Prepared, surveyed: Sequence[State], found: Mapping[str, Mapping[str, list[Root]]]
) -> list[tuple[Any, ...]]:
    """The arguments of `write_state` for each state."""
    plan = prepared.plan
    counts = [state.geounits["optimized"] for state in surveyed]
    ids = [(0,) * len(counts[0]), *accumulate(counts, lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)))]
    counters = tuple(max(column) for column in zip(*(state.counters for state in surveyed), strict=True))
    shared = shared_codes(surveyed)
    return [
        (path, plan, found, shared, first_ids, counters, prepared.partial)
        for path, first_ids in zip(prepared.paths, ids[:-1], strict=True)
    ]


def _all_shares(prepared: Prepared, written: Sequence[Written]) -> dict[str, list[Fraction]]:
    """The distinct shares of every level of the optimized spine, root included."""
    shares: dict[str, list[Fraction]] = {}
    for level in prepared.levels["optimized"]:
        distinct = {share for state in written for share in state.shares.get(level, [])}
        shares[level] = sorted(distinct) or [prepared.plan.allocation.levels[level]]
    return shares


def _noise_table(noises: Sequence[Noise]) -> pd.DataFrame:
    """Exact parameters as text, and as decimals to look at."""
    table = pd.DataFrame([{name: str(value) for name, value in row._asdict().items()} for row in noises])
    return table.assign(decimal=[float(row.parameter) for row in noises])


def _with_errors(
    table: pd.DataFrame,
    prepared: Prepared,
    written: Sequence[Written],
    found: Mapping[str, Mapping[str, list[Root]]],
) -> pd.DataFrame:
    """The level table with the root mean square and the largest standard error of the first marginal's cell."""
    plan, marginal = prepared.plan, prepared.plan.marginals[0]
    spread: dict[tuple[str, str], tuple[float, float]] = {}
    for which in SPINES:
        for level in written[0].errors[which]:
            squares, counts, largest = zip(*(state.errors[which][level] for state in written), strict=True)
            spread[which, level] = float(np.sqrt(sum(squares) / sum(counts))), max(largest)
        if not plan.rooted:
            top = prepared.levels[which][0]
            spread[which, top] = (_root_error(plan, prepared.levels[which], found[which][marginal]),) * 2
    keys = list(zip(table["spine"], table["level"], strict=True))
    return table.assign(**{"se_rms": [spread[k][0] for k in keys], "se_max": [spread[k][1] for k in keys]})


def _root_error(plan: Plan, levels: tuple[str, ...], found: Sequence[Root]) -> float:
    parts = plan.parts(levels)[plan.marginals[0]]
    return float(np.sqrt(sum(cell_variance(p, r.variance) for p, r in zip(parts, found, strict=True))))


def _write_root(prepared: Prepared, surveyed: Sequence[State], found: Sequence[Root]) -> None:
    """geounits/root.parquet: the root above several states."""
    plan = prepared.plan
    top = prepared.levels["optimized"][0]
    like = pyarrow.parquet.read_schema(next((prepared.partial / "geounits").glob("*.parquet")))
    row = {
        "level": top,
        "id": 0,
        "parent": None,
        "geocode": "",
        "share": str(plan.allocation.levels[top]),
        "fanout": sum(state.geounits["optimized"][0] for state in surveyed),
        "blocks": sum(state.blocks for state in surveyed),
        f"se_{plan.marginals[0]}": _root_error(plan, prepared.levels["optimized"], found),
    }
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in like])
    table = pa.Table.from_pylist([row], plain).cast(like)
    pyarrow.parquet.write_table(table, prepared.partial / "geounits" / "root.parquet", compression="zstd")


def _summary(prepared: Prepared, surveyed: Sequence[State], classes: pd.DataFrame, cost: Fraction) -> SpineSummary:
    plan, settings = prepared.plan, prepared.plan.settings
    geounits = {}
    for which in SPINES:
        counts = [sum(n) for n in zip(*(state.geounits[which] for state in surveyed), strict=True)]
        geounits[which] = dict(zip(prepared.levels[which], counts if plan.rooted else [1, *counts], strict=True))
    return SpineSummary(
        product=settings.product,
        region=settings.region,
        variant=settings.variant,
        mechanism=settings.mechanism,
        states=tuple(f"{state:02d}" for state in prepared.states),
        blocks=sum(state.blocks for state in surveyed),
        geounits=geounits,
        budget=plan.allocation.budget,
        cost=cost,
        classes=tuple({str(k): v for k, v in row.items()} for row in classes.to_dict("records")),
        notes=prepared.notes,
        out=prepared.out,
    )


def _manifest(summary: SpineSummary, plan: Plan) -> dict[str, Any]:
    """The summary with every setting and its source, and the allocation."""
    sources = SpineSettings.sources()
    settings = {
        name: {"value": str(value) if isinstance(value, Fraction) else value, "source": sources[name]}
        for name, value in asdict(plan.settings).items()
    }
    allocation = {
        "source": plan.allocation.source,
        "budget": str(plan.allocation.budget),
        "levels": {level: str(share) for level, share in plan.allocation.levels.items()},
        "queries": {
            level: {q: str(a) for q, a in plan.allocation.queries[level].items()} for level in plan.allocation.levels
        },
    }
    shown = replace(summary, classes=()).as_json()
    del shown["out"], shown["classes"]
    return {**shown, "settings": settings, "allocation": allocation}
