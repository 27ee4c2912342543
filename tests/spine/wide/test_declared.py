"""Declarations of wide tables: the shipped persons of the DHC, and what is refused, each with its key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from wide import changed_wide

from spine.declaration.declaration import read_declaration
from spine.production import allocation
from spine.settings import Jurisdiction


@pytest.mark.parametrize("jurisdiction", ["us", "pr"])
def test_the_shipped_persons_are_those_of_production(jurisdiction: Jurisdiction) -> None:
    file = files("spine.declaration") / f"shipped/dhc-persons-{jurisdiction}.toml"
    declaration, faults = read_declaration(tomllib.loads(file.read_text("utf-8")))
    assert not faults
    assert declaration is not None
    product, own, production = declaration.product, declaration.allocation, allocation("dhc-persons", jurisdiction)
    assert (own.budget, own.levels) == (production.budget, production.levels)
    for level, shares in production.queries.items():
        assert [*own.queries[level].values()] == [*shares.values()]
    widths = [product.width(query) for query in declaration.queries("Block")]
    assert widths == [12, 6, 76, 4, 8, 60, 19, 252_000, 423_360, 1_227_744]
    assert product.width(declaration.form.equal[0].partition) == 2_016
    possible = product.possible.reshape(product.shape)[:, 0, :, 0, 0]
    assert (~possible).any(axis=1).sum() == 33  # relationships that some age excludes
    assert [np.flatnonzero(possible[kind])[[0, -1]].tolist() for kind in (0, 8, 11, 27, 32, 40)] == [
        [15, 115],
        [0, 89],
        [0, 74],
        [20, 115],
        [3, 30],
        [16, 75],
    ]


BAD: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "a repair without equal sums": ("counts.0.repair", lambda raw: raw.update(equal=[])),
    "a repair of another kind": ("counts.0.repair", lambda raw: raw["counts"][0].update(repair="drop")),
    "a repair of limits": ("counts.0.repair", lambda raw: raw["counts"][0].update(most=["", 1, 1, 1, 1])),
    "a repair of parts that the chain does not know": (
        "counts.0.repair",
        lambda raw: raw["counts"][0].update(partition="age", columns=[""] * 12, least=[0] * 12),
    ),
    "a repair on two axes": (
        "counts.0.repair",
        lambda raw: raw["counts"][0].update(partition="sex*gqtype", columns=["", *"abcd"] * 2, least=[]),
    ),
    "a repair of the total": (
        "counts.0.repair",
        lambda raw: raw["counts"][0].update(partition="total", columns=["a"], least=[1]),
    ),
    "two repairs": (
        "counts.1.repair",
        lambda raw: raw["counts"].append({"partition": "hhgq", "columns": ["", "a", "b"], "repair": "switch"}),
    ),
    "a part without a column in the sums of counted parts": (
        "counts.0.columns",
        lambda raw: raw["equal"][0].update(partition="votingage*race"),
    ),
    "parts with some sums in common": (
        "counts.0.partition",
        lambda raw: raw["zeros"].append({"where": {"relgq": "3", "age": "4-11"}}),
    ),
    "passes that ask nothing": (
        "passes.0.then",
        lambda raw: raw["passes"][0].update(least_squares=[], then=[{"least_squares": []}]),
    ),
    "counts without a repair": ("equal", lambda raw: raw["counts"][0].pop("repair")),
    "two releases": ("equal", lambda raw: raw["equal"].append({"partition": "hhgq", "release": "other"})),
    "levels without the passes": ("passes.levels", lambda raw: raw["passes"][0].update(levels=["state", "county"])),
    "a chain that does not refine the release": ("passes.round", lambda raw: raw["passes"][0].update(round=["sex"])),
    "two passes before the rounding": (
        "passes.least_squares",
        lambda raw: raw["passes"][0].update(least_squares=[["relgq"], ["rest"]]),
    ),
    "answers of unequal weights": ("mechanism", lambda raw: raw.update(mechanism="puredp")),
    "a level that asks less": (
        "queries",
        lambda raw: raw["queries"].update(tract={"relgq*sex*age6*race": "1/2", "detailed": "1/2"}),
    ),
    "a chain whose last sums are not asked": (
        "queries",
        lambda raw: raw["passes"][0].update(round=["relgq*sex*age6*race", "relgq*sex*age*race"]),
    ),
    "anchors that are asked": ("passes.anchors", lambda raw: raw["passes"][0].update(anchors={"sex*age6": "1"})),
    "anchors without weight": ("passes.anchors", lambda raw: raw["passes"][0].update(anchors={"sex": "0"})),
    "anchors that the chain does not sum": (
        "passes.anchors",
        lambda raw: raw["passes"][0].update(anchors={"age": "1"}),
    ),
    "anchors with a weight in one of two places": (
        "passes.anchors",
        lambda raw: raw["passes"][0].update(anchors={"sex": "-1"}, then=[{"anchors": {"sex": "1"}}]),
    ),
    "anchors of too many sums": (
        "passes.anchors",
        lambda raw: (
            raw["passes"][0].update(then=[{"anchors": {"relgq*sex*age": "1", "relgq*age*race": "1"}}])
            or raw["axes"]["age"].update(values="0-99")
        ),
    ),
    "a query that the chain does not sum": (
        "queries.tract.age",
        lambda raw: raw["queries"].update(tract={"age": "1/2", "detailed": "1/2"}),
    ),
}


@pytest.mark.parametrize("wrong", BAD)
def test_a_wide_declaration_is_refused_by_its_key(wrong: str) -> None:
    assert read_declaration(changed_wide(lambda raw: None))[0] is not None
    key, change = BAD[wrong]
    declaration, faults = read_declaration(changed_wide(change))
    assert declaration is None
    assert key in [fault.key for fault in faults], faults


def test_parts_without_columns_may_share_some_sums() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["zeros"].append({"where": {"relgq": "3", "age": "4-11"}})
        raw["counts"][0]["columns"][1:3] = ["", ""]

    assert read_declaration(changed_wide(change))[1] == []
