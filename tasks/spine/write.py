"""The last stage of a spine: join the states under their root, measure and write.

spine.json has the summary, the settings with their sources, the allocation, and digests of the inputs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from spine.noise import Noise, noise, record_cost
from spine.settings import SpineSettings
from spine.variance import Root
from tasks.lifecycle.workers import Workers, map_public
from tasks.releases.datapackage import write_package
from tasks.releases.description import Description
from tasks.releases.manifest import file_names
from tasks.spine.first_pass import SpinePlan, StateSpineSummary
from tasks.spine.prepare import Prepared
from tasks.spine.release_tables import NO_PARENT, TABLES
from tasks.spine.report import write_report
from tasks.spine.second_pass import Roots, Written, write_state
from tasks.spine.tables import class_table, entity_table, level_table


@dataclass(frozen=True)
class SpineSummary:
    """The content of a spine directory, as in spine.json.

    geounits: by spine and level. classes: rows of classes.csv. cost: the largest cost of a replaced record (rho or
    epsilon), which equals the budget if every share is spent. notes: what was left out or is unknown.
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

    def as_json(self) -> dict[str, Any]:
        """Return plain values, with fractions as text."""
        return {**asdict(self), "budget": str(self.budget), "cost": str(self.cost)}


def write_spine(prepared: Prepared, states: Sequence[StateSpineSummary], workers: Workers | None) -> SpineSummary:
    """Join the states under their root, and write everything."""
    plan, folder = prepared.plan, prepared.folder
    root_of = roots(states, plan)
    written: list[Written] = map_public(workers, "spine", write_state, _second_pass(prepared, states, root_of))
    entities = entity_table([state.families for state in written], plan, root_of)
    classes = class_table(entities)
    levels = level_table(states, plan, written, root_of)
    noises = noise(plan.allocation, _all_shares(prepared, written))
    cost = max(state.cost for state in written)
    if not plan.rooted:
        _write_root(prepared, states, levels)
        top = plan.settings.levels[0]
        cost += record_cost(plan.allocation, [row.parameter for row in noises if row.level == top])
    entities.to_csv(folder / "entities.csv", index=False)
    classes.to_csv(folder / "classes.csv", index=False)
    levels.to_csv(folder / "levels.csv", index=False)
    _noise_table(noises).to_csv(folder / "noise.csv", index=False)
    summary = _summary(prepared, states, classes, levels, cost)
    (folder / "spine.json").write_text(json.dumps(_manifest(summary, plan, prepared.inputs), indent=2) + "\n", "utf-8")
    (folder / "allocation.json").write_text(json.dumps(plan.allocation.as_file(), indent=2) + "\n", "utf-8")
    write_report(folder / "spine.html", summary, plan, entities, classes, levels)
    shutil.rmtree(folder / "scratch")
    write_package(folder, Description(TABLES), {"release": "Geographic spine"}, file_names(folder))
    return summary


def roots(states: Sequence[StateSpineSummary], plan: SpinePlan) -> Roots:
    """Return the root above all states; for a rooted spine, it is the only top geounit."""
    root_of: dict[tuple[str, str], list[Root]] = {}
    for which, levels in plan.levels.items():
        share = 0.0 if plan.rooted else float(plan.allocation.levels[levels[0]]) ** plan.power
        tops = sum(state.geounits[which][0] for state in states)
        for marginal, parts in plan.parts(which).items():
            of_states = zip(*(state.tops[which, marginal] for state in states), strict=True)
            root_of[which, marginal] = [
                Root(share * part.information[levels[0]], np.linalg.inv(sum(variances)), tops)
                for part, variances in zip(parts, of_states, strict=True)
            ]
    return root_of


def shared_codes(states: Sequence[StateSpineSummary]) -> dict[str, Any]:
    """Return, by family, the codes of the entities in more than one state."""
    shared = {}
    for name in dict.fromkeys(name for state in states for name in state.codes):
        codes, number = np.unique(np.concatenate([state.codes[name] for state in states]), return_counts=True)
        shared[name] = codes[number > 1]
    return shared


def _second_pass(prepared: Prepared, states: Sequence[StateSpineSummary], root_of: Roots) -> list[tuple[Any, ...]]:
    plan = prepared.plan
    counts = [state.geounits["optimized"] for state in states]
    ids = [(0,) * len(counts[0]), *accumulate(counts, lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)))]
    largest = tuple(max(column) for column in zip(*(state.numbers for state in states), strict=True))
    shared = shared_codes(states)
    return [
        (path, plan, root_of, shared, first_ids, largest, prepared.folder)
        for path, first_ids in zip(prepared.paths, ids[:-1], strict=True)
    ]


def _all_shares(prepared: Prepared, written: Sequence[Written]) -> dict[str, list[Fraction]]:
    """Return the distinct shares of every level of the optimized spine, root included."""
    return {
        level: sorted({share for state in written for share in state.shares.get(level, [])}) or [of_level]
        for level, of_level in prepared.plan.allocation.levels.items()
    }


def _noise_table(noises: Sequence[Noise]) -> pd.DataFrame:
    """Return exact parameters as text, with decimals for reading."""
    table = pd.DataFrame([{name: str(value) for name, value in row._asdict().items()} for row in noises])
    return table.assign(decimal=[float(row.parameter) for row in noises])


def _write_root(prepared: Prepared, states: Sequence[StateSpineSummary], levels: pd.DataFrame) -> None:
    """Write geounits/root.parquet, the root above several states, from the table of levels."""
    top = levels[levels["spine"] == "optimized"].iloc[0]
    like = pyarrow.parquet.read_schema(next((prepared.folder / "geounits").glob("*.parquet")))
    row = {
        "level": top["level"],
        "id": 0,
        "parent": NO_PARENT,
        "geocode": "",
        "share": top["share"],
        "fanout": int(top["fanout_max"]),
        "blocks": sum(state.blocks for state in states),
        f"se_{prepared.plan.marginals[0]}": top["se_max"],
    }
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in like])
    table = pa.Table.from_pylist([row], plain).cast(like)
    pyarrow.parquet.write_table(table, prepared.folder / "geounits" / "root.parquet", compression="zstd")


def _summary(
    prepared: Prepared, states: Sequence[StateSpineSummary], classes: pd.DataFrame, levels: pd.DataFrame, cost: Fraction
) -> SpineSummary:
    plan, settings = prepared.plan, prepared.plan.settings
    geounits = {
        str(which): dict(zip(of["level"], of["geounits"].tolist(), strict=True))
        for which, of in levels.groupby("spine", sort=False)
    }
    return SpineSummary(
        product=settings.product,
        region=settings.jurisdiction,
        variant=settings.variant,
        mechanism=settings.definition,
        states=tuple(f"{state:02d}" for state in prepared.states),
        blocks=sum(state.blocks for state in states),
        geounits=geounits,
        budget=plan.allocation.budget,
        cost=cost,
        classes=tuple({str(k): v for k, v in row.items()} for row in classes.to_dict("records")),
        notes=prepared.notes,
    )


def _manifest(summary: SpineSummary, plan: SpinePlan, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the summary, the settings with their sources, the allocation, and digests of the inputs."""
    sources = SpineSettings.sources()
    settings = {
        name: {"value": str(value) if isinstance(value, Fraction) else value, "source": sources[name]}
        for name, value in plan.settings.described().items()
    }
    allocation = {"source": plan.allocation.source, **plan.allocation.described()}
    shown = summary.as_json()
    del shown["classes"], allocation["mechanism"]
    versions = {"das-flows": version("das-flows")}
    return {**shown, "inputs": dict(inputs), "versions": versions, "settings": settings, "allocation": allocation}
