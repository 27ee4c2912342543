"""Replicates are read in every form and compared with our own runs: another budget is found, the same law is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE
from public_microdata import ppmf, write
from top_down_inputs import country, design, settings_with

from flows.execution.repetitions import count_marked
from spine.geography import FloatArray
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.files import read_object
from tasks.top_down.accuracy.errors import LEVELS, averaged, covered, measure_errors, targeted
from tasks.top_down.accuracy.report import write_report
from tasks.top_down.published.microdata.make_inputs import COUNTS, make_inputs
from tasks.top_down.published.replicates.compare import Compared, compare_runs, write_comparison
from tasks.top_down.published.replicates.read_replicates import keep_runs, keep_truth, read_replicates
from tasks.top_down.source import TopDownRun

BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
MOVED = 7  # persons whose race is another in a replicate


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return country(tmp_path_factory.mktemp("replicates"), ("46",))


def begin(folder: Path, data: Path, budget: Fraction | None = None) -> TopDownRun:
    settings = settings_with(folder, data, design(budget=budget), "accuracy")
    settings.directory.create()
    count_marked(settings, HERE)
    return settings.directory


def replicates(data: Path, number: int) -> dict[str, pd.DataFrame]:
    """A replicate: the truth, with some persons' race made white; their number depends on the replicate's."""
    tables = ppmf(data)
    persons = tables["persons"]
    others = persons.index[persons["CENRACE"] != "01"][: MOVED * number]
    persons.loc[others, "CENRACE"] = "01"
    return tables


def in_files(folder: Path, data: Path, number: int) -> None:
    for name, table in replicates(data, number).items():
        write(table, folder / f"2020_ppmf_{name}_{number}.csv")


def in_folders(folder: Path, data: Path, number: int) -> None:
    (folder / f"ppmf{number}").mkdir()
    for name, table in replicates(data, number).items():
        write(table, folder / f"ppmf{number}" / f"{name}.csv.gz", [*table.columns], "|")


def converted(folder: Path, data: Path, number: int) -> None:
    (folder / "raw").mkdir(exist_ok=True)
    sources = [str(write(table, folder / f"raw/{name}.csv")) for name, table in replicates(data, number).items()]
    make_inputs(sources, folder / str(number), publisher="somebody", histograms=True)


def in_counts(folder: Path, data: Path, number: int) -> None:
    """Rows of tracts, in the form of a CSV of counts."""
    persons = replicates(data, number)["persons"]
    tract = persons[BLOCK[:3]].agg("".join, axis=1)
    race = persons["CENRACE"].astype(int)
    counts = {"P0010001": race > 0, "P0010003": race == 1, "P0010009": race > 6, "P9990001": race > 0}
    rows = [
        {"PRODUCT_TABLE": cell[:2], "QUERY": cell, "GEO": f"1400000US{geo}", "ITERATION": number, "COUNT": count}
        for cell, chosen in counts.items()
        for geo, count in chosen.groupby(tract).sum().items()
    ]
    path = folder / "counts.csv"
    pd.DataFrame(rows).to_csv(path, mode="a", header=not path.exists(), index=False)


@pytest.mark.parametrize(
    "form",
    [
        in_files,
        pytest.param(in_folders, marks=pytest.mark.slow),
        *(pytest.param(form, marks=pytest.mark.ci) for form in (converted, in_counts)),
    ],
)
def test_every_form_of_replicates_has_the_same_counts(
    tmp_path: Path, data: Path, form: Callable[[Path, Path, int], None]
) -> None:
    run = begin(tmp_path, data)
    source = tmp_path / "replicates"
    source.mkdir()
    for number in (0, 1, 2):
        form(source, data, number)
    if form is in_counts:
        source = source / "counts.csv"
    assert read_replicates(run, HERE, source) == (1, 2)
    folder = run / "accuracy/counts/persons/46/tract"
    truth = read_object(folder / "truth", FloatArray)
    for number in (1, 2):
        error = read_object(folder / f"theirs-{number:04d}", FloatArray) - truth
        there = ~np.isnan(error)
        assert there.all() == (form is not in_counts)
        white = error[:, 3]  # after total, voting age and Hispanic
        assert white.sum() == MOVED * number
        assert (error[:, 0] == 0).all()


@pytest.mark.ci
def test_replicates_that_cannot_be_compared_are_refused(tmp_path: Path, data: Path) -> None:
    run = begin(tmp_path, data)

    def refused(words: str, *made: tuple[int, int], other: Path = data) -> None:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for number, content in made:
            (folder / f"{number}").mkdir()
            for name, table in replicates(other, content).items():
                write(table, folder / f"{number}" / f"{name}.csv")
        with pytest.raises(Refused, match=words):
            read_replicates(run, HERE, folder)

    refused("has no replicates")
    refused("has 1 replicates besides the truth", (0, 0), (1, 1))
    refused("replicate 0 is not the truth", (0, 1), (1, 1), (2, 2))
    folder = tmp_path / "twice"
    for name in ("ppmf1", "again_1", "2"):
        (folder / name).mkdir(parents=True)
        for product, table in replicates(data, 1).items():
            write(table, folder / name / f"{product}.csv")
    with pytest.raises(Refused, match=r"replicate 1: it has [\d,]+ persons in state \d\d, and the truth .* twice"):
        read_replicates(run, HERE, folder)
    for number, (change, words) in enumerate(
        (
            ({"COUNT": "many"}, "the last two of whole numbers"),
            ({"ITERATION": "1.5"}, "the last two of whole numbers"),
            ({"ITERATION": "12345"}, "ITERATION 12345 is not 0 to 9999"),
            ({"COUNT": "-1"}, "COUNT -1 is not 0 to 1,000,000,000"),
            ({"COUNT": "99999999999999999999"}, "the last two of whole numbers"),
            ({"COUNT.1": "1"}, "once each"),
            ({"COUNT": "7"}, "P0010001 of 1400000US\\d+ is there with two counts in iteration 1"),
        )
    ):
        (folder := tmp_path / f"counts{number}").mkdir()
        in_counts(folder, data, 1)
        table = pd.read_csv(folder / "counts.csv", dtype=str)
        changed = pd.concat([table, table.head(1).assign(**change)]).rename(columns={"COUNT.1": "COUNT"})
        changed.to_csv(folder / "counts.csv", index=False)
        with pytest.raises(Refused, match=words):
            read_replicates(run, HERE, folder / "counts.csv")
    of_others = ({"GEO": "1400000US01001020100"}, "iteration 2 has no count of an area in state 46")
    other_counts = ({"QUERY": "P0010009"}, "no count of an area in state 46 is in every iteration")
    for number, (change, words) in enumerate((of_others, other_counts)):
        (folder := tmp_path / f"others{number}").mkdir()
        in_counts(folder, data, 1)
        table = pd.read_csv(folder / "counts.csv", dtype=str)
        first = table[table["QUERY"] != "P0010009"]
        second = table[table["QUERY"] == "P0010001"].assign(ITERATION="2", **change).drop_duplicates(["GEO"])
        pd.concat([first, second]).drop_duplicates().to_csv(folder / "counts.csv", index=False)
        with pytest.raises(Refused, match=words):
            read_replicates(run, HERE, folder / "counts.csv")
    another = country(tmp_path / "another", ("23",))
    refused("replicate 1: no record of", (1, 0), (2, 0), other=another)


HOSTILE: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a cell that is none": lambda table: _with(table, "cell", [9999, *table["cell"].to_pylist()[1:]]),
    "a negative count": lambda table: _with(table, "count", [-1, *table["count"].to_pylist()[1:]]),
    "a missing block": lambda table: _with(table, "cell", [None, *table["cell"].to_pylist()[1:]]),
    "text": lambda table: table.set_column(0, "block", table["block"].cast(pa.string())),
    "lists": lambda table: table.set_column(2, "count", pa.array([[1]] * len(table))),
    "a column twice": lambda table: table.append_column("cell", table["cell"]),
    "no column": lambda table: table.drop_columns(["cell"]),
}


def _with(table: pa.Table, name: str, values: list[int | None]) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize("fault", [*HOSTILE, "cut", "empty"])
@pytest.mark.ci
def test_converted_replicates_that_were_tampered_with_are_refused(tmp_path: Path, data: Path, fault: str) -> None:
    run, source = begin(tmp_path, data), tmp_path / "replicates"
    source.mkdir()
    for number in (1, 2):
        converted(source, data, number)
    path = source / "2" / COUNTS["persons"]
    if fault in HOSTILE:
        pq.write_table(HOSTILE[fault](pq.read_table(path)), path)
    else:
        path.write_bytes(path.read_bytes()[:500] if fault == "cut" else b"")
    with pytest.raises(Refused, match=r"replicate 2: .* not of das tda public --histograms"):
        read_replicates(run, HERE, source)


@pytest.mark.ci
def test_counts_that_no_level_tests_give_no_verdict(tmp_path: Path, data: Path) -> None:
    """Counts of counties alone, all far from the truth: of a state without the US level no county is tested."""
    run = begin(tmp_path, data)
    measure_errors(run, HERE, range(2), ("topdown",), partial(keep_runs, run, HERE))
    sums = replicates(data, 0)["persons"].groupby(BLOCK[:2]).size()
    rows = [
        {"PRODUCT_TABLE": "P1", "QUERY": cell, "GEO": f"0500000US{state}{county}", "ITERATION": number, "COUNT": count}
        for (state, county), total in sums.items()
        for number in range(1, 13)
        for cell, count in (("P0010001", total + 1000 + 100 * number), ("P0010003", total))
        if cell == "P0010001" or number < 12
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "counts.csv", index=False)
    assert len(read_replicates(run, HERE, tmp_path / "counts.csv")) == 12
    compared = compare_runs(run, HERE)
    assert compared.verdict.empty
    assert compared.sentence.startswith("No verdict: no count of the levels that are tested here (tract")
    assert not compared.differs
    assert compared.incomplete == len(sums)  # the last replicate lacks one count a county
    assert len(compared.table) == 1


@pytest.mark.slow
def test_our_own_runs_are_not_told_apart_and_another_budget_is(tmp_path: Path, data: Path) -> None:
    """All draws are fixed. 10 runs are compared with 10 of the same law, then with 10 with a third of the budget."""
    run, poor = begin(tmp_path / "same", data), begin(tmp_path / "poor", data, Fraction(9, 10))
    for each, seeds in ((poor, range(10)), (run, range(20))):
        measured = measure_errors(each, HERE, seeds, ("topdown",), partial(keep_runs, each, HERE))
    for product, state in run.product_states:
        keep_truth(run, product, state)
    counts = run / "accuracy/counts"
    others = {"same": sorted(counts.rglob("ours-001?")), "poor": sorted((poor / "accuracy/counts").rglob("ours-*"))}
    for name, paths in others.items():
        for path in paths:
            base = counts if name == "same" else poor / "accuracy/counts"
            path.rename((counts / path.relative_to(base)).with_name(path.name.replace("ours", name)))

    def compared_with(name: str) -> Compared:
        for path in sorted((run / "accuracy/counts").rglob("theirs-*")):
            path.unlink()
        for path in sorted((run / "accuracy/counts").rglob(f"{name}-*")):
            path.with_name(path.name.replace(name, "theirs")).write_bytes(path.read_bytes())
        return compare_runs(run, HERE)

    same, other = compared_with("same"), compared_with("poor")
    assert (same.runs, same.replicates, same.nation) == (10, 10, False)
    assert set(same.verdict["level"]) == {"tract", "cbg", "obg", "block"}
    assert not same.differs
    assert other.differs
    assert "No verdict: 2 runs of ours" in replace(same, runs=2, replicates=3).sentence
    ratio = other.table.set_index(["product", "level", "quantity"])["ratio"]
    assert ratio[("persons", "tract", "total")] < 0.8
    errors, coverage = averaged(measured.errors), covered(measured.coverage)
    target = targeted(measured.target)
    about = {"truth": "errors of a test", "Data": "made up", "Seeds": "10"}
    for compared, words in ((same, "No difference was found"), (other, "The two groups of runs differ")):
        shown = write_comparison(tmp_path, compared)
        write_report(tmp_path, errors, coverage, ["optimized"], ["topdown"], about | {}, target, shown)
        assert words in re.sub(r"\s+", " ", (tmp_path / "error.html").read_text())
    assert set(pd.read_csv(tmp_path / "replicates.csv")["level"]) <= set(LEVELS)
