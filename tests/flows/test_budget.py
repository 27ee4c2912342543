"""A budget that counts down: what it charges, what it refuses, and that what it returns has the law it says."""

from __future__ import annotations

import copy
import doctest
import os
import pickle
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import das_flows as das
from flows import budget as module
from flows import counted_groups

SERIES = pd.Series({"north": 412, "south": 398})
NOT_WHOLE = (1.5, "1.5", True, 1.0)


def test_examples() -> None:
    assert doctest.testmod(module).failed == 0


@settings(max_examples=30)
@given(st.lists(st.fractions(Fraction(1, 1000), 1), max_size=20))
def test_no_sequence_of_charges_passes_the_budget(amounts: list[Fraction]) -> None:
    budget, paid = das.Budget(puredp="2"), Fraction(0)
    for amount in amounts:
        if paid + amount > 2:
            with pytest.raises(das.BudgetSpent):
                budget.charge(amount)
        else:
            budget.charge(str(amount))
            paid += amount
        assert (budget.spent, budget.remaining) == (paid, 2 - paid)


def test_threads_cannot_spend_more_than_there_is() -> None:
    budget = das.Budget(zcdp=1)

    def charge(_number: int) -> bool:
        try:
            budget.charge("1/7")
        except das.BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(charge, range(200))) == 7
    assert budget.remaining == 0


def test_a_budget_stays_as_it_was_made() -> None:
    budget = das.Budget(zcdp=1)
    for name, value in (("total", 2), ("definition", "puredp"), ("remaining", 2), ("spent", 0)):
        with pytest.raises(AttributeError):
            setattr(budget, name, value)


def test_a_budget_has_no_copy_that_could_spend_it_again() -> None:
    budget = das.Budget(zcdp=1)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="each copy could spend it"):
            duplicate(budget)
    if not (child := os.fork()):
        try:
            budget.charge(1)
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_noise_has_its_law_and_the_interval_its_margin() -> None:
    """100,000 draws: six standard errors, 2 in 10^9, of the variance; the operating system's randomness."""
    noisy = das.Budget(zcdp="0.5").measure(pd.Series(np.zeros(100_000, int)), "1/4", stability=2, confidence="0.9")
    law = das.law("zcdp", "1/4", 2)
    assert abs(noisy["count"].var() / law.variance() - 1) < 6 * (2 / 100_000) ** 0.5
    margin = das.margin_of_error(law, alpha="0.1")
    assert ((noisy["count"] - noisy.low == margin) & (noisy.high - noisy["count"] == margin)).all()
    assert noisy.attrs["noise"] == "discrete Gaussian, sigma_squared 4"


def test_a_margin_costs_the_least_budget_that_meets_it() -> None:
    budget = das.Budget(zcdp=100)
    law, amount = budget.law_within(10, stability=3, cells=4, confidence="0.99")
    assert das.margin_of_error(law, 4, alpha="0.01") <= 10
    assert das.margin_of_error(das.law("zcdp", amount * Fraction(9999, 10000), 3), 4, alpha="0.01") > 10
    assert budget.spent == 0


def test_groups_are_the_declared_ones_and_the_index_is_kept() -> None:
    records = pd.DataFrame({"sex": pd.Categorical(["f", "m", "m", "x", None]), "age": [1, 2, 2, 1, 1]})
    wide = das.Budget(zcdp=10**6)  # its noise is 0 but once in e^-5000
    groups = {"sex": ["m", "f"], "age": [1, 2, 3]}
    found = wide.measure(records, 10**4, stability=1, by=groups)
    expected = pd.MultiIndex.from_product(groups.values(), names=groups)
    pd.testing.assert_series_equal(found["count"], pd.Series([0, 2, 0, 1, 0, 0], expected, name="count"))
    one = wide.measure(records, 10**4, stability=1, by={"age": [2, 1]})["count"]
    pd.testing.assert_series_equal(one, pd.Series([2, 3], pd.Index([2, 1], name="age"), name="count"))
    assert wide.measure(SERIES, Decimal("1e4"), stability=1)["count"].to_dict() == {"north": 412, "south": 398}


def test_a_missing_value_counts_where_none_is_declared() -> None:
    records = pd.DataFrame({"sex": ["f", None, None], "age": [1, np.nan, 2]})
    wide = das.Budget(zcdp=10**6)  # its noise is 0 but once in e^-5000
    for column, value in (("sex", "f"), ("age", 1)):
        assert wide.measure(records, 10**4, stability=1, by={column: [value]})["count"].tolist() == [1]
    assert wide.measure(records, 10**4, stability=1, by={"sex": ["f", None]})["count"].tolist() == [1, 2]
    assert wide.measure(records, 10**4, stability=1, by={"age": [1, 2, None]})["count"].tolist() == [1, 1, 1]


KINDS = ("frame", "table", "parquet")


def of_kind(kind: str, table: pa.Table, folder: Path, frame: pd.DataFrame | None = None) -> counted_groups.Records:
    """Return records as a frame, as the table, or as a Parquet file of row groups of four."""
    if kind == "frame":
        return table.to_pandas() if frame is None else frame
    if kind == "table":
        return table
    pq.write_table(table, folder / "records.parquet", row_group_size=4)
    return str(folder / "records.parquet") if kind == "coded" else folder / "records.parquet"


@pytest.mark.parametrize("kind", [*KINDS, "coded"])
def test_records_of_every_kind_are_counted_alike_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Blocks are of three records, row groups of four: their dictionaries differ, and so do the values they miss."""
    monkeypatch.setattr(counted_groups, "BLOCK", 3)
    days = [None if at % 5 == 3 else pd.Timestamp(2020, 4, 1 + at % 3) for at in range(40)]
    columns = {
        "sex": ["f", None, "m", "x"] * 10,
        "age": [None if at > 30 else at % 4 for at in range(40)],
        "in": [[True, False, None][at % 3] for at in range(40)],
        "day": days,
        "empty": [None] * 40,
        "half": [at % 2 / 2 for at in range(40)],
        "unread": [[at] for at in range(40)],
    }
    types = {"age": pa.int64(), "half": pa.float16()}
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    coded = table.set_column(0, "sex", table["sex"].dictionary_encode())
    records = of_kind(kind, coded if kind == "coded" else table, tmp_path)
    wide = das.Budget(zcdp=10**6)
    for by in (
        {"sex": ["m", None, "f"], "age": [2, None, 7, 0]},
        {"age": [3, 1]},
        {"day": [None, days[1]], "sex": ["x"]},
        {"in": [True, False], "age": [0, 1, 2, 3, None]},
        {"in": [None, False, True]},
        {"empty": [None, "x"]},
        {"empty": [None]},
        {"half": [0.5, 1]},
    ):
        records_by_group = Counter(zip(*(columns[name] for name in by), strict=True))
        expected = [records_by_group[group] for group in product(*by.values())]
        assert wide.measure(records, 10**3, stability=1, by=by)["count"].tolist() == expected


LARGE = 2**53 + 1  # no float is this number


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_above_those_of_floats_are_counted_exactly_or_refused(tmp_path: Path, kind: str) -> None:
    table = pa.table({"n": pa.array([LARGE - 1, LARGE, LARGE, None], pa.int64()), "x": [float(LARGE), 1.0, 1.0, None]})
    frame = pd.DataFrame({"n": pd.array([LARGE - 1, LARGE, LARGE, None], "Int64"), "x": table["x"].to_pandas()})
    records = of_kind(kind, table, tmp_path, frame)
    for values, expected in (([LARGE, None], [2, 1]), ([LARGE, 0.5, LARGE - 1], [2, 0, 1])):
        counts = counted_groups.count_groups(records, {"n": values})
        assert counts.tolist() == expected
        assert counts.index.tolist()[0] == LARGE
    for by in ({"n": [float(LARGE)]}, {"x": [LARGE]}, {"x": [LARGE, 0.5]}, {"x": [LARGE - 1, None]}):
        with pytest.raises(ValueError, match=r"declared of '[nx]' is 2\^53 or more, where floats round whole numbers"):
            counted_groups.count_groups(records, by)
    assert counted_groups.count_groups(records, {"x": [1, float("inf"), None]}).tolist() == [2, 0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_cannot_be_counted_are_refused_by_the_name_of_their_column(tmp_path: Path, kind: str) -> None:
    table = pa.table({"list": [[1], None], "struct": [{"a": 1}, None]})
    records = of_kind(kind, table, tmp_path)
    for by in ({"list": ["1"]}, {"struct": [None]}):
        with pytest.raises(ValueError, match=f"the values of '{next(iter(by))}' cannot be counted: convert them"):
            counted_groups.count_groups(records, by)
    records = of_kind(kind, pa.table({"in": [True, False]}), tmp_path)
    with pytest.raises(ValueError, match="declared of 'in' are numbers, its column's type is truth values"):
        counted_groups.count_groups(records, {"in": [1, 0]})
    with pytest.raises(ValueError, match="declared of 'in' one is there twice"):
        counted_groups.count_groups(records, {"in": [None, np.nan]})


def test_a_file_of_records_is_refused_as_a_frame_is(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    path.write_text("sex\nf\n")
    budget = das.Budget(zcdp="1")
    for place in (path, tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match="cannot be read as a Parquet file"):
            budget.measure(place, "1", stability=1, by={"sex": ["f"]})
    pq.write_table(pa.table({"sex": ["f"], "age": [1]}), path)
    for by, message in (({"race": ["1"]}, "no column 'race'; it has sex, age"), ({"age": ["1"]}, "type is numbers")):
        with pytest.raises(ValueError, match=message):
            budget.measure(path, "1", stability=1, by=by)
    assert budget.spent == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.measure(SERIES, 0.5, stability=1), 'not the float 0.5: write "0.5"'),
        (lambda b: b.measure(SERIES, "0.5 rho", stability=1), "'0.5 rho' is not a number"),
        (lambda b: b.measure(SERIES, "1e999999999", stability=1), "an exponent to 100"),
        (lambda b: b.measure(SERIES, "-1", stability=1), "must be positive, not -1"),
        (lambda b: b.measure(SERIES, "1", stability=0), "stability of a noise law must be positive"),
        (lambda b: b.measure(SERIES, stability=1), "name the amount or the margin"),
        (lambda b: b.measure(SERIES, "1", margin=3, stability=1), "name the amount or the margin"),
        (lambda b: b.measure(SERIES, "1", stability=1, confidence="95"), "strictly between 0 and 1, not 95"),
        (lambda b: b.measure(SERIES / 3, "1", stability=1), "counts must be whole numbers .* not of type float64"),
        (
            lambda b: b.measure(SERIES.astype("Int64").replace(412, pd.NA), "1", stability=1),
            "a count is missing",
        ),
        (lambda b: b.measure(SERIES.to_frame("n"), "1", stability=1), "name the groups"),
        (lambda b: b.measure(SERIES, "1", stability=1, by={"n": [1]}), "groups are of a frame of records"),
        (lambda b: b.measure(SERIES.to_frame("n"), "1", stability=1, by={"m": [1]}), "no column 'm'; it has n"),
        (
            lambda b: b.measure(pd.concat([SERIES.to_frame("n")] * 2, axis=1), "1", stability=1, by={"n": [1]}),
            "2 columns 'n'; it has n, n",
        ),
        (
            lambda b: b.measure(SERIES.to_frame("n"), "1", stability=1, by={"n": ["412"]}),
            "declared of 'n' are text, its column's type is numbers",
        ),
        (
            lambda b: b.measure(pd.DataFrame({"n": pd.Categorical(["1"])}), "1", stability=1, by={"n": [1]}),
            "declared of 'n' are numbers, its column's type is text",
        ),
        (
            lambda b: b.measure(pd.Series(["a", "b"]).value_counts(), "1", stability=1),
            "index says which values somebody has",
        ),
        (lambda b: b.measure(SERIES.to_frame("n"), "1", stability=1, by={"n": [1, 1]}), "one is there twice"),
        (lambda b: b.measure(SERIES, "1e-20", stability=1), "too wide for the sampler"),
        (lambda b: b.charge(0), "must be positive"),
        *(
            (lambda b, by=by: b.measure(SERIES.to_frame("n"), "1", stability=1, by=by), "a dict of")
            for by in ("n", ["n"], {})
        ),
        *(
            (lambda b, own=own: b.measure(SERIES.to_frame("n"), "1", stability=1, by={"n": own}), "no list")
            for own in ("fm", 1, [])
        ),
        (
            lambda b: b.measure(SERIES.to_frame("n"), "1", stability=1, by={"n": range(10**5), "m": range(10**5)}),
            "by declares 10,000,000,000 groups; at most 16,777,216",
        ),
        *(
            (lambda b, own=own: b.measure(SERIES, "1", stability=own), "stability .* is a whole number, as 1")
            for own in NOT_WHOLE
        ),
        *(
            (lambda b, own=own: b.measure(SERIES, margin=own, stability=1), "margin .* is a whole number")
            for own in NOT_WHOLE
        ),
        (lambda b: b.measure(SERIES, margin=SERIES, stability=1), "not the Series$"),
        (lambda b: b.measure(-SERIES, "1", stability=1), "are not negative"),
        (lambda b: b.measure(SERIES[:0], "1", stability=1), "the series is empty"),
        (
            lambda b: b.measure(SERIES.astype("Int64").where(SERIES.min() < SERIES), "1", stability=1),
            "a count is missing",
        ),
        (lambda b: b.measure(SERIES, "1.1", stability=1), r"rho 1\.1 was asked for; 1 of 1 is left"),
        (lambda b: das.Budget(zcdp=1, puredp=1), "one definition"),
        (lambda b: das.Budget("1"), r'one definition: Budget\(zcdp="1"\)'),
        (lambda b: das.Budget(), "one definition"),
        (lambda b: das.Budget(zcdp=0), "must be positive"),
    ],
)
def test_what_is_refused_costs_nothing(call: Callable[[das.Budget], object], message: str) -> None:
    budget = das.Budget(zcdp=1)
    with pytest.raises(ValueError, match=message):
        call(budget)
    assert budget.remaining == 1
