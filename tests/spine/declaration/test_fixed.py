"""Which numbers of records declared figures fix: several counts and totals together, against all small databases."""

from __future__ import annotations

from itertools import product as tuples
from typing import Any

import numpy as np
import pytest
from declarations import hierarchy_of
from hypothesis import given, settings
from hypothesis import strategies as st

from spine.declaration.figures import Figures, read_bounds
from spine.declaration.fixed import fixed_groups
from spine.top_down.queries import query_group

MOST = 5  # records of a cell in the databases that are tried
COLUMNS = [f"c{at}" for at in range(4)]


def raw_of(counts: list[dict[str, Any]], totals: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "tiny",
        "records": "person",
        "budget": "1",
        "leaves": {"file": "zones.csv", "key": "zone"},
        "levels": [{"name": "nation"}, {"name": "zone", "columns": ["zone"]}],
        "axes": {name: {"column": name, "values": ["1", "2"]} for name in ("sex", "home")},
        "queries": {"total": "1/2", "detailed": "1/2"},
        "counts": counts,
        "totals": totals,
    }


def count(partition: str, columns: list[str], least: list[Any], most: list[Any]) -> dict[str, Any]:
    return {"partition": partition, "columns": columns, "least": least, "most": most}


def groups_of(counts: list[dict[str, Any]], leaf: list[int]) -> list[str]:
    """What is fixed in a country of one zone, whose figures c0, c1 ... are these."""
    table = {"zone": ["a"]} | {name: [str(number)] for name, number in zip(COLUMNS, leaf, strict=False)}
    hierarchy = hierarchy_of(raw_of(counts, []), table)
    declared = hierarchy.declaration.form.counts
    own = [np.array([[int(table[name][0]) if name else 0 for name in each.columns]]) for each in declared]
    return fixed_groups(hierarchy, Figures(own, []))


FEWEST = count("sex", ["c0", "c1"], [1, 1], ["", ""])


@pytest.mark.parametrize(
    ("counts", "leaf", "fixed"),
    [
        ([FEWEST], [2, 3], []),
        ([FEWEST, count("total", ["c2"], [0], [1])], [2, 3, 5], ["zone", "sex"]),
        ([FEWEST, count("total", ["c2"], [0], [1])], [2, 3, 6], []),
        (
            [FEWEST, count("sex*home", ["c0", "c1", "", ""], [0, 0, 0, 0], [1, 0, "", ""])],
            [2, 3],
            ["zone", "sex", "home"],
        ),
        ([FEWEST, count("sex*home", ["c0", "", "c1", ""], [0, 0, 0, 0], [1, "", 1, ""])], [2, 3], []),
        (
            [FEWEST, count("sex*home", ["c0", "c2", "", ""], [0, 0, 0, 0], [1, 1, "", ""])],
            [2, 3, 0],
            ["zone", "sex", "home"],
        ),
        ([count("sex", ["c0", "c1"], [0, 0], [1, 1]), count("total", ["c2"], [1], [""])], [2, 3, 5], ["zone", "sex"]),
        ([count("sex", ["c0", "c1"], [0, 0], [1, 1])], [0, 0], []),  # nobody is there
        ([count(" sex", ["c0", "c1"], [1, 1], [1, 1])], [1, 2], ["zone", "sex"]),
    ],
)
def test_counts_that_fix_a_number_only_together(
    counts: list[dict[str, Any]], leaf: list[int], fixed: list[str]
) -> None:
    assert groups_of(counts, leaf) == fixed


figure = st.integers(0, 3)
CHAIN = ("total", "sex", "sex*home")


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, list[str]], int | None]:
    """Counts of nested partitions with random factors, their figures in two zones, and a total of all or none."""
    counts = []
    table: dict[str, list[str]] = {"zone": ["a", "b"]}
    for at, partition in enumerate(CHAIN):
        width = 1 << at
        least = draw(st.lists(st.sampled_from([0, 1]), min_size=width, max_size=width))
        most = [draw(st.sampled_from(["", max(1, few)])) for few in least]
        names = [draw(st.sampled_from([f"{partition} {part}", ""])) for part in range(width)]
        if any(names):
            counts.append(count(partition, names, least, most))
            table |= {name: [str(draw(figure)) for _ in range(2)] for name in names if name}
    return counts, table, draw(st.none() | st.integers(0, MOST))


@settings(max_examples=40, deadline=None)
@given(cases())
def test_what_is_fixed_is_what_all_databases_agree_in(
    case: tuple[list[dict[str, Any]], dict[str, list[str]], int | None],
) -> None:
    counts, table, total = case
    hierarchy = hierarchy_of(raw_of(counts, [] if total is None else [{"of": "nation", "file": "t.csv"}]), table)
    form, product = hierarchy.declaration.form, hierarchy.declaration.product
    own = [
        np.array([[int(table[name][zone]) if name else 0 for name in each.columns] for zone in range(2)])
        for each in form.counts
    ]
    totals = [] if total is None else [(np.zeros(2, np.int64), ["the whole"], np.array([total]))]
    figures = Figures(own, totals)
    if read_bounds(hierarchy, figures)[0] is None:
        return  # no database agrees with them
    cells = np.array([*tuples(range(MOST + 1), repeat=product.cells)])
    agree = []
    for zone in range(2):
        fits = np.ones(len(cells), bool)
        for each, figure_of in zip(form.counts, own, strict=True):
            for part, sums in _sums(product, each, cells):
                number = figure_of[zone, part]
                most = each.most[part]
                fits &= sums >= number * each.least[part]
                fits &= sums <= (number * most if isinstance(most, int) else 10**9 if number else 0)
        agree.append(cells[fits])
    sizes = [set(each.sum(axis=1).tolist()) for each in agree]
    expected: list[str] = []
    for each in form.counts:
        for zone in range(2):
            inside = agree[zone]
            if total is not None:
                inside = inside[np.isin(total - inside.sum(axis=1), [*sizes[1 - zone]])]
            if any(
                len({*sums.tolist()}) == 1 and sums[0] > 0 and (each.least[part] or each.most[part] != "")
                for part, sums in _sums(product, each, inside)
            ):
                expected += ["zone", *(each.partition.split("*") if each.partition != "total" else [])]
    assert fixed_groups(hierarchy, figures) == list(dict.fromkeys(["nation"] * (total is not None) + expected))


def _sums(product: Any, declared: Any, cells: Any) -> list[tuple[int, Any]]:
    group = query_group(product, declared.partition)
    return [
        (part, cells[:, group.coordinate == part].sum(axis=1)) for part, name in enumerate(declared.columns) if name
    ]
