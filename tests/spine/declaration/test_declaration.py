"""Declarations: what is refused, each with its key; axes, recodes and hierarchies; classes against brute force."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest
from declarations import BASE, LEAVES, TOTALS, changed, declared, exactly, figures_of, hierarchy_of, keys
from hypothesis import given
from hypothesis import strategies as st

from spine.declaration.declaration import classify, read_declaration
from spine.declaration.figures import read_bounds
from spine.declaration.form import expanded, is_writable
from spine.declaration.hierarchy import make_hierarchy
from spine.top_down.queries import parent_of, query_group

Change = Callable[[dict[str, Any]], object]


def then(name: str, chain: list[str] | None = None) -> dict[str, Any]:
    """Passes of a level after a rounding, whose chain is `name`."""
    later = {"least_squares": [["detailed"]], "round": [name]}
    return {"levels": ["region"], "round": ["dwelling"] if chain is None else chain, "then": [later]}


@given(st.data())
def test_what_refines_what_is_decided_axis_by_axis(data: st.DataObject) -> None:
    product = declared().product
    names = ["total", "detailed", "sex", "dwelling", "age", "young", "dwelling*young", "sex*age", "young * sex"]
    fine, coarse = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    groups = query_group(product, fine), query_group(product, coarse)
    assert product.refines(fine, coarse) == (parent_of(*groups) is not None)
    assert product.width(fine) == groups[0].width


BAD_FORMS: dict[str, tuple[str, Change]] = {  # what is wrong: the key, and the change that makes it so
    "a key that is not there": ("colour", lambda raw: raw.update(colour="red")),
    "a misspelled key of a level": ("levels.1.collumns", lambda raw: raw["levels"][1].update(collumns=["x"])),
    "a figure of the records": ("totals.0.from_records", lambda raw: raw["totals"][0].update(from_records=True)),
    "no budget": ("budget", lambda raw: raw.pop("budget")),
    "columns of a record that are fewer than those of the key": (
        "records_file.key",
        lambda raw: raw.update(leaves=raw["leaves"] | {"key": ["region", "zcode"]}, records_file={"key": "zone"}),
    ),
    "columns of a record that would be joined to one key": (  # 1, 11 and 11, 1 would be one leaf
        "records_file.key",
        lambda raw: raw.update(records_file={"key": ["region", "zcode"]}),
    ),
    "a budget of zero": ("budget", lambda raw: raw.update(budget="0")),
    "a budget that is no number": ("budget", lambda raw: raw.update(budget="two")),
    "a budget as a float": ("budget", lambda raw: raw.update(budget=0.1)),
    "a budget divided by zero": ("budget", lambda raw: raw.update(budget="1/0")),
    "another mechanism": ("mechanism", lambda raw: raw.update(mechanism="laplace")),
    "a name with capitals": ("name", lambda raw: raw.update(name="Chile")),
    "a record of no account": ("unit", lambda raw: raw.update(records="dwelling")),
    "one level": ("levels", lambda raw: raw.update(levels=[{"name": "nation"}])),
    "two levels of one name": ("levels.2.name", lambda raw: raw["levels"][2].update(name="region")),
    "a level named as a file of releases": ("levels.2.name", lambda raw: raw["levels"][2].update(name="dictionary")),
    "a column of releases": ("levels.columns", lambda raw: raw["levels"][2].update(columns=["Count"])),
    "a column of tables of names": (
        "levels.columns",
        lambda raw: raw["levels"][2].update(columns=["NAME"], names="label"),
    ),
    "an axis named as a folder of tables": (
        "axes.cells",
        lambda raw: raw["axes"].update(cells={"column": "C", "values": "1-2"}),
    ),
    "a value that no table can hold": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(values=["a|b", "2"])),
    "two sets of counts of one partition": ("counts", lambda raw: raw["counts"].append(exactly(" dwelling", 2))),
    "two sets of counts of one partition in another order": (
        "counts",
        lambda raw: raw.update(counts=[exactly("dwelling*sex", 4), exactly("sex * dwelling", 4)]),
    ),
    "a cell without a value": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(values=[[]])),
    "a column of tables of totals": ("levels.columns", lambda raw: raw["levels"][2].update(columns=["total"])),
    "a table of too many cells": (
        "axes",
        lambda raw: (
            raw["axes"]["age"].update(values="0-9999", column="A")
            or raw["axes"].update(more={"column": "M", "values": "0-9999"})
        ),
    ),
    "a level without columns": ("levels.2.columns", lambda raw: raw["levels"][2].update(columns=[])),
    "a column in two levels": ("levels.columns", lambda raw: raw["levels"][2].update(columns=["region"])),
    "a column of margins": ("levels.columns", lambda raw: raw["levels"][2].update(columns=["Estimate"])),
    "a share for one level": ("levels.share", lambda raw: raw["levels"][1].update(share="1/2")),
    "shares of more than 1": ("levels.share", lambda raw: [level.update(share="1/2") for level in raw["levels"]]),
    "a made level at the top": ("levels.0.made", lambda raw: raw["levels"][0].update(made={"within": "zone"})),
    "an axis twice a column": ("axes.sex.column", lambda raw: raw["axes"]["sex"].update(column="DW")),
    "an axis without values": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(values=[])),
    "a value in two cells": ("axes.age.values", lambda raw: raw["axes"]["age"].update(values=["0-4", "4-9"])),
    "a range that runs backwards": ("axes.age.values", lambda raw: raw["axes"]["age"].update(values="9-0")),
    "labels for other cells": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(labels=["one"])),
    "an axis named total": ("axes.total", lambda raw: raw["axes"].update(total={"column": "T", "values": "1-2"})),
    "an axis named as a column": (
        "axes.Region",
        lambda raw: raw["axes"].update(Region={"column": "T", "values": "12"}),
    ),
    "a recode named as a column": (
        "recodes.COUNT",
        lambda raw: raw["recodes"].update(COUNT={"axis": "age", "width": 2}),
    ),
    "a recode named as a level": (
        "recodes.District",
        lambda raw: raw["recodes"].update(District={"axis": "age", "width": 2}),
    ),
    "a recode of no axis": ("recodes.young.axis", lambda raw: raw["recodes"]["young"].update(axis="colour")),
    "a recode by two ways": ("recodes.young", lambda raw: raw["recodes"]["young"].update(width=2)),
    "a recode that leaves out a cell": ("recodes.young", lambda raw: raw["recodes"]["young"].update(starts=[1, 3])),
    "a recode with a cell twice": (
        "recodes.old",
        lambda raw: raw["recodes"].update(old={"axis": "age", "from": ["0-4", "4-9"]}),
    ),
    "a query of no axis": ("queries.colour", lambda raw: raw.update(queries={"colour": "1/2", "detailed": "1/2"})),
    "a query that asks an axis twice": (
        "queries.age*young",
        lambda raw: raw.update(queries={"age*young": "1/2", "detailed": "1/2"}),
    ),
    "queries of less than 1": ("queries", lambda raw: raw["queries"].update(total="1/5")),
    "a query too long for a folder": (
        "queries",
        lambda raw: raw.update(queries={"*".join(["sex"] * 51): "1/2", "detailed": "1/2"}),
    ),
    "a negative share": ("queries", lambda raw: raw["queries"].update(total="-1/4", detailed="1")),
    "no detailed query": ("queries", lambda raw: raw.update(queries={"total": "1"})),
    "queries of another level": ("queries.US", lambda raw: raw["queries"].update(US={"detailed": "1"})),
    "a total that is first and not asked": ("queries.district", lambda raw: raw.update(queries={"detailed": "1"})),
    "a zero of no axis": ("zeros.0.where.colour", lambda raw: raw["zeros"][0].update(where={"colour": "red"})),
    "a zero of no value": ("zeros.0.where.age", lambda raw: raw["zeros"][0].update(where={"age": "12"})),
    "zeros everywhere": ("zeros", lambda raw: raw["zeros"].append({"where": {"sex": ["1", "2"]}})),
    "totals of no level": ("totals.0.of", lambda raw: raw["totals"][0].update(of="county")),
    "several tops and no total": ("totals", lambda raw: (raw["levels"].pop(0), raw.update(totals=[]))),
    "counts of no partition": ("counts.0.partition", lambda raw: raw["counts"][0].update(partition="colour")),
    "counts of fewer columns": ("counts.0.columns", lambda raw: raw["counts"][0].update(columns=["homes"])),
    "fewest of more parts": ("counts.0.least", lambda raw: raw["counts"][0].update(least=[1, 1, 1])),
    "counts of a partition twice": ("counts", lambda raw: raw["counts"].append(raw["counts"][0])),
    "equality of no partition": (
        "equal.0.partition",
        lambda raw: raw.update(equal=[{"partition": "colour", "release": "x"}]),
    ),
    "a least that overflows": ("counts.0.least.1", lambda raw: raw["counts"][0].update(least=[0, (1 << 20) + 1])),
    "a most that overflows": ("counts.0.most.1", lambda raw: raw["counts"][0].update(most=["", (1 << 20) + 1])),
    "a negative most": ("counts.0.most.0", lambda raw: raw["counts"][0].update(most=[-1, ""])),
    "a negative least": ("counts.0.least.0", lambda raw: raw["counts"][0].update(least=[-1, 0])),
    "a label that is a formula": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(labels=["=1+1", "2"])),
    "a value that is a formula": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(values=["@SUM(A1)", "2"])),
    "words that are a formula": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(words="-cmd|x")),
    "words with a tab": ("axes.sex.values", lambda raw: raw["axes"]["sex"].update(words="\tsex")),
    "a column that is a formula": ("levels.columns", lambda raw: raw["levels"][3].update(columns=["+zone"])),
    "an account of another record": ("unit", lambda raw: raw.update(unit="household")),
    "histograms of no level": ("histograms", lambda raw: raw.update(histograms=["zone", "parish"])),
    "totals of a made level": (
        "totals.0.of",
        lambda raw: (
            raw["levels"].insert(3, {"name": "group", "made": {"within": "district"}}),
            raw["totals"][0].update(of="group"),
        ),
    ),
    "a made level named as a column": (
        "levels.columns",
        lambda raw: raw["levels"].insert(3, {"name": "ZCode", "made": {"within": "district"}}),
    ),
    "a column with a long name": ("levels.columns", lambda raw: raw["levels"][3].update(columns=["z" * 65])),
    "more queries than a file of measurements can number": (
        "queries",
        lambda raw: raw.update(
            axes={f"a{at}": {"column": f"A{at}", "values": "0-1"} for at in range(7)},
            recodes={},
            zeros=[],
            counts=[],
            queries={"*".join(f"a{at}" for at in range(7) if mask >> at & 1): "1/101" for mask in range(1, 101)}
            | {"detailed": "1/101"},
        ),
    ),
    "passes of no level": ("passes.0.levels", lambda raw: raw.update(passes=[{"levels": ["county"]}])),
    "passes of a level twice": ("passes.1.levels", lambda raw: raw.update(passes=[{"levels": ["region"]}] * 2)),
    "further passes": (
        "passes.0.least_squares",
        lambda raw: raw.update(passes=[{"levels": ["region"], "least_squares": [["total"], ["sex"], ["rest"]]}]),
    ),
    "then without a chain": (
        "passes.0.then",
        lambda raw: raw.update(counts=[], queries={"total": "1/2", "detailed": "1/2"}, passes=[then("sex", [])]),
    ),
    "then that does not refine the chain": ("passes.0.then.round", lambda raw: raw.update(passes=[then("sex")])),
    "then by no partition": ("passes.0.then.round", lambda raw: raw.update(passes=[then("colour")])),
    "then of limits": (
        "passes.0.then",
        lambda raw: (raw["counts"][0].update(most=[9, 9]), raw.update(passes=[then("dwelling*sex")])),
    ),
    "then after nothing": (
        "passes.0.then",
        lambda raw: raw.update(passes=[then("dwelling*sex") | {"least_squares": [["total"]]}]),
    ),
    "then that asks what was asked": (
        "passes.0.least_squares",
        lambda raw: raw.update(passes=[then("dwelling*sex") | {"least_squares": [["dwelling*young"], ["detailed"]]}]),
    ),
    "a chain that does not nest": (
        "passes.round",
        lambda raw: raw.update(passes=[{"levels": ["region"], "round": ["dwelling", "sex"]}]),
    ),
    "a chain without the counts": (
        "passes.round",
        lambda raw: raw.update(passes=[{"levels": ["zone"], "round": ["sex"]}]),
    ),
    "a wide band": ("passes.band", lambda raw: raw.update(passes=[{"levels": ["region"], "band": "1"}])),
    "no total, and none first": (
        "passes",
        lambda raw: (
            raw.update(totals=[], passes=[{"levels": ["nation"], "least_squares": [["rest"]]}]),
            raw["levels"].__getitem__(0),
        ),
    ),
}


def test_the_declaration_that_is_changed_has_no_fault() -> None:
    assert read_declaration(BASE)[1] == []


@pytest.mark.parametrize("wrong", BAD_FORMS)
def test_a_bad_declaration_is_refused_by_its_key(wrong: str) -> None:
    key, change = BAD_FORMS[wrong]
    declaration, faults = read_declaration(changed(change))
    assert declaration is None
    assert key in keys(faults)
    assert all(fault.text and fault.key for fault in faults)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda raw: raw.update(mechanism="gauss"), ("mechanism", "'gauss' should be 'zcdp' or 'puredp'")),
        (lambda raw: raw.update(mechanism="pure"), ("mechanism", "'pure' should be 'zcdp' or 'puredp'")),
        (
            lambda raw: raw.update(levels=[{"name": "a"}]),
            ("levels", "[{'name': 'a'}] should have at least 2 items"),
        ),
        (
            lambda raw: raw["counts"][0].update(most=["", -1]),
            ("counts.0.most.1", "-1 should be "),
        ),
        (
            lambda raw: raw["axes"].update(street={"colour": 1, "column": "A", "values": "1"}),
            ("axes.street.colour", ""),
        ),
        (lambda raw: raw["axes"]["sex"].update(values=["1", "a|b"]), ("axes.sex.values", "'a|b' is empty, has |")),
        (lambda raw: raw["axes"]["sex"].update(column=5), ("axes.sex.column", "5 should be a valid string")),
    ],
)
def test_a_fault_names_the_key_of_the_file_and_its_value(change: Change, expected: tuple[str, str]) -> None:
    (fault,) = read_declaration(changed(change))[1]
    assert fault.key == expected[0]
    assert fault.text.startswith(expected[1])


def test_all_faults_are_found_at_once() -> None:
    raw = changed(lambda raw: (raw["axes"]["sex"].update(values=[]), raw["levels"][2].update(name="region")))
    assert keys(read_declaration(raw)[1]) == {"axes.sex.values", "levels.2.name"}


BAD_LEAVES: dict[str, tuple[str, dict[str, list[str]]]] = {
    "a key twice": ("leaves.key", {"zone": ["a1", "a1", "a3", "b1", "b2"]}),
    "no code": ("leaves.region", {"region": ["1", "", "1", "2", "2"]}),
    "two leaves of the same codes": ("levels.3.columns", {"zcode": ["1", "1", "1", "1", "2"]}),
    "a code that no table can hold": ("leaves.region", {"region": ["1", 'a"b', "1", "2", "2"]}),
    "a code that is a formula": ("leaves.region", {"region": ["1", "=HYPERLINK(A1)", "1", "2", "2"]}),
    "no leaf": ("leaves.file", {name: [] for name in LEAVES}),
}


@pytest.mark.parametrize("wrong", BAD_LEAVES)
def test_a_bad_table_of_leaves_is_refused(wrong: str) -> None:
    key, columns = BAD_LEAVES[wrong]
    hierarchy, faults = make_hierarchy(declared(), LEAVES | columns)
    assert hierarchy is None
    assert keys(faults) == {key}


def test_the_rows_of_a_key_that_comes_twice_are_named() -> None:
    raw = changed(lambda raw: raw["leaves"].update(key=["region", "zcode"]))
    rows = {"region": ["2", "1", "2", "1", "1"], "zcode": ["2", "1", "1", "1", "1"]}
    _, faults = make_hierarchy(declared(raw), LEAVES | rows)
    assert [fault.text for fault in faults] == ["rows 2 and 4 of zones.csv have the key 1|1: a leaf has one row"]


def test_codes_of_a_key_of_several_columns_do_not_hold_what_joins_them() -> None:
    raw = changed(lambda raw: raw["leaves"].update(key=["region", "zone"]))
    _, faults = make_hierarchy(declared(raw), LEAVES | {"zone": ["a|1", "a2", "a3", "b1", "b2"]})
    assert keys(faults) == {"leaves.zone"}


def test_levels_from_the_leaves_up_are_refused() -> None:
    raw = changed(lambda raw: raw.update(levels=[raw["levels"][0], *raw["levels"][:0:-1]], counts=[], totals=[]))
    leaves = LEAVES | {"zcode": ["1", "2", "3", "4", "5"]}
    hierarchy, faults = make_hierarchy(declared(raw), leaves)
    assert hierarchy is None
    assert keys(faults) == {"levels"}
    assert "from the top down" in faults[0].text


def test_equal_codes_under_different_parents_are_different_geounits_in_the_order_of_numbers() -> None:
    hierarchy = hierarchy_of()
    assert hierarchy.keys(np.arange(5)) == [["a2", "a3", "a1", "b1", "b2"]]  # district 9 before 10
    assert hierarchy.names(2) == ["1/9", "1/10", "2/9"]
    assert [len(starts) for starts in hierarchy.spine.starts] == [1, 2, 3, 5]
    assert hierarchy.names(0) == ["nation"]


def test_a_made_level_groups_leaves_that_agree_and_respects_its_cap() -> None:
    raw = changed(lambda raw: raw.update(counts=[], totals=[], bypass=False))
    raw["levels"].insert(3, {"name": "group", "made": {"within": "district", "apart": ["kind"]}})
    number = 100
    leaves = {
        "zone": [f"z{at}" for at in range(number)],
        "region": ["1"] * number,
        "district": ["1"] * number,
        "zcode": [str(at) for at in range(number)],
        "kind": [str(at % 2) for at in range(number)],
    }
    hierarchy = hierarchy_of(raw, leaves)
    sizes = hierarchy.spine.children(3)
    assert sizes.tolist() == [23, 23, 4, 23, 23, 4]  # floor(sqrt(100)) + 12 + 1 at most, in each kind
    assert hierarchy.names(3)[-1] == "1/1/6"


def test_values_and_recodes_are_those_of_the_file() -> None:
    product = declared().product
    assert product.shape == (2, 2, 6)
    assert product.axes[2].codes == ("0", "1", "2", "3", "4", "5-9")
    young = query_group(product, "young")
    assert young.coordinate[:6].tolist() == [0, 0, 0, 1, 1, 1]
    assert int(product.possible.sum()) == 24 - 2 * 2  # ages 0 and 1 in institutions
    assert expanded("01-03") == ["01", "02", "03"]
    assert expanded("8-11") == ["8", "9", "10", "11"]


def test_the_default_chain_starts_at_the_counts_and_every_sum_refines_the_one_before() -> None:
    declaration = declared()
    assert declaration.passes.rounded == ("dwelling", "dwelling*young")
    assert declaration.passes.total_first == {"nation", "region", "district"}
    assert declaration.product.refines("dwelling*young", "dwelling")
    assert not declaration.product.refines("dwelling*young", "sex")


BAD_FIGURES: dict[str, tuple[str, Change, dict[str, int], dict[str, list[str]]]] = {
    "totals of more than 2^31 - 1": ("totals", lambda raw: None, {"1": 1 << 30, "2": 1 << 30}, {}),
    "two totals of one level": (
        "totals",
        lambda raw: raw["totals"].append(raw["totals"][0]),
        {"1": 20, "2": 12},
        {},
    ),
    "a total below its counts": ("totals.0.file", lambda raw: None, {"1": 0, "2": 12}, {}),
    "a total without room": (
        "totals.0.file",
        lambda raw: None,
        {"1": 20, "2": 1},
        {"homes": ["3", "2", "4", "0", "0"], "institutions": ["0", "1", "0", "0", "0"]},
    ),
    "a negative count": ("counts", lambda raw: raw.update(totals=[]), TOTALS, {"homes": ["3", "-2", "4", "1", "5"]}),
    "a negative count without a fewest": (
        "counts",
        lambda raw: raw.update(totals=[], counts=[exactly("dwelling*sex", 4)]),
        TOTALS,
        {"homes": ["3", "-2", "4", "1", "5"]},
    ),
    "more records than a histogram can hold": (
        "counts",
        lambda raw: (raw.update(totals=[]), raw["counts"][0].update(least=[1 << 20, 0])),
        TOTALS,
        {"homes": ["3", str((1 << 31) - 1), "4", "1", "5"]},
    ),
    "records of a part of zeros": (
        "counts.0.least",
        lambda raw: raw["zeros"].append({"where": {"dwelling": "2"}}),
        {"1": 20, "2": 12},
        {},
    ),
}


@pytest.mark.parametrize("wrong", BAD_FIGURES)
def test_declared_figures_that_contradict_each_other_are_refused(wrong: str) -> None:
    key, change, totals, columns = BAD_FIGURES[wrong]
    leaves = LEAVES | columns
    hierarchy = hierarchy_of(changed(change), leaves)
    bounds, faults = read_bounds(hierarchy, figures_of(hierarchy, leaves, totals))
    assert bounds is None
    assert key in keys(faults)


# The class of the constraints, against all pairs of sets.


@given(
    st.lists(
        st.sampled_from(["dwelling", "sex", "young", "age", "sex*young", "dwelling*sex"]), max_size=3, unique=True
    ),
    st.lists(st.sampled_from(["", "least", "most"]), min_size=3, max_size=3),
)
def test_bounds_of_parts_that_cross_are_refused_by_their_key(partitions: list[str], bounds: list[str]) -> None:
    width = {"dwelling": 2, "sex": 2, "young": 2, "age": 6, "sex*young": 4, "dwelling*sex": 4}
    counts = [
        {"partition": name, "columns": ["x"] * width[name]} | ({bound: [1] * width[name]} if bound else {})
        for name, bound in zip(partitions, bounds, strict=False)
    ]
    product, sets = declared().product, {}
    for at, (name, bound) in enumerate(zip(partitions, bounds, strict=False)):
        if bound:
            group = query_group(product, name)
            sets[at] = [(group.coordinate == part) & product.possible for part in range(group.width)]
    crossing = {
        f"counts.{second}.partition"
        for first, second in pairs(sets, sets)
        if first < second
        and any(
            (one & other).any() and (one & ~other).any() and (other & ~one).any()
            for one, other in pairs(sets[first], sets[second])
        )
    }
    declaration, faults = read_declaration(changed(lambda raw: raw.update(counts=counts)))
    assert (declaration is None) == bool(crossing)
    assert keys(faults) <= crossing
    if declaration is not None:
        assert classify(declaration)[0] == ("A" if len(partitions) <= 1 else "B")


@pytest.mark.parametrize("code", ["-1", "+5", "-9.5", "-3--1"])
def test_a_negative_number_is_a_code(code: str) -> None:
    assert is_writable(code) == (code != "-3--1")
    assert not is_writable(f"={code}")


def test_a_crossing_is_named_with_a_cell_and_what_to_leave_out() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["counts"] = [{"partition": "sex", "columns": ["x", "y"], "least": [1, 0]}]
        raw["equal"] = [{"partition": "young", "release": "x"}]

    _, (fault,) = read_declaration(changed(change))
    assert fault == (
        "equal.0.partition",
        "bounds of sex and young cross: of their parts around the cell (dwelling 1, sex 1, age 0) neither holds the "
        "other; leave out least, most or equal of one of them",
    )


# Inherited feasibility, against all numbers of parents on tiny trees.


def divisions(total: int, allowed: np.ndarray, lower: np.ndarray, limit: int) -> set[tuple[int, ...]]:
    """All numbers of the parts of a geounit that meet its own figures."""
    ranges = [range(int(low), limit + 1) if open_ else range(1) for low, open_ in zip(lower, allowed, strict=True)]
    return {numbers for numbers in pairs(*ranges) if sum(numbers) == total}


@given(st.data())
def test_what_is_inherited_is_what_every_parent_can_divide(data: st.DataObject) -> None:
    children = data.draw(st.integers(2, 3))
    homes = data.draw(st.lists(st.integers(0, 2), min_size=children, max_size=children))
    institutions = data.draw(st.lists(st.integers(0, 2), min_size=children, max_size=children))
    least = data.draw(st.sampled_from([[0, 1], [1, 1], [0, 0]]))
    totals = [data.draw(st.integers(0, 4)) for _ in range(children)]
    leaves = {
        "zone": [str(at) for at in range(children)],
        "region": [str(at) for at in range(children)],
        "district": ["1"] * children,
        "zcode": [str(at) for at in range(children)],
        "homes": [str(number) for number in homes],
        "institutions": [str(number) for number in institutions],
    }
    raw = changed(lambda raw: raw["counts"][0].update(least=least))
    hierarchy = hierarchy_of(raw, leaves)
    figures = figures_of(hierarchy, leaves, {str(at): total for at, total in enumerate(totals)})
    counts = figures.counts[0]
    own = [
        divisions(total, count > 0, count * least, sum(totals))
        for total, count in zip(figures.totals[0][2].tolist(), counts, strict=True)
    ]
    bounds, faults = read_bounds(hierarchy, figures)
    if not all(own):  # a child cannot meet its own figures: another finding
        assert bounds is None
        return
    together = {tuple(map(sum, zip(*chosen, strict=True))) for chosen in pairs(*own)}
    parent = divisions(sum(totals), counts.sum(axis=0) > 0, counts.sum(axis=0) * least, sum(totals))
    assert (parent <= together) == (bounds is not None)
    if bounds is None:
        (fault,) = faults
        assert fault.key == "counts"
        assert fault.text.endswith("declare totals of nation alone")


def test_the_shares_of_a_path_are_the_budget_however_children_are_bypassed() -> None:
    from spine.noise import replacement_cost

    for bypassed in (True, False):
        hierarchy = hierarchy_of(changed(lambda raw, bypassed=bypassed: raw.update(bypass=bypassed)))
        assert replacement_cost(hierarchy.spine, hierarchy.declaration.allocation) == Fraction(2)


def test_totals_of_parts_together_are_of_the_level_of_the_parts_which_must_ask_the_total() -> None:
    """As states of the redistricting data, whose areas inside and outside American Indian land are two units."""

    def parts(raw: dict[str, Any]) -> None:
        raw["levels"][1]["columns"] = ["region", "inside"]
        raw["totals"][0]["of"] = ["region"]

    leaves = LEAVES | {"inside": ["0", "1", "1", "0", "0"]}
    hierarchy = hierarchy_of(changed(parts), leaves)
    bounds, faults = read_bounds(hierarchy, figures_of(hierarchy, leaves))
    assert bounds is not None, faults
    nation, regions, *below = bounds.totals
    assert nation is not None
    assert regions is not None
    assert (nation.values.tolist(), regions.values.tolist(), regions.group.tolist()) == ([32], [20, 12], [0, 0, 1])
    assert below == [None, None]
    raw = changed(parts)
    raw["queries"]["region"] = {"dwelling": "1/2", "detailed": "1/2"}
    raw["passes"] = [{"levels": ["region"], "least_squares": [["rest"]]}]
    hierarchy = hierarchy_of(raw, leaves)
    assert keys(read_bounds(hierarchy, figures_of(hierarchy, leaves))[1]) == {"totals.0.of"}


@pytest.mark.parametrize(
    ("change", "key", "text"),
    [
        (lambda raw: raw.update(budgget="2"), "budgget", "no such key: budgget; did you mean budget?"),
        (lambda raw: raw["axes"]["sex"].update(share="1"), "axes.sex.share", "no such key: share"),
        (
            lambda raw: raw["levels"][1].update(name="regi\u00f3n"),
            "levels.1.name",
            "'regi\u00f3n': write it in letters a to z, digits and _, a letter first, 64 at most",
        ),
        (
            lambda raw: raw.update(records="dwelling"),
            "unit",
            'accounts are of persons or of households: unit = "person" where each dwelling is the record of one '
            'person, unit = "household" where each is that of one household',
        ),
    ],
)
def test_findings_are_in_words(change: Change, key: str, text: str) -> None:
    assert read_declaration(changed(change))[1][0] == (key, text)
