"""What a TopDown run releases: every invariant and sum, the measurements it was made of, the same bytes again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from e2e_runs import digest
from top_down_inputs import HERE, begin, country, design, finish, read, settings_with

from flows.execution.runner import release_truth
from privacy.noise.laws import DiscreteGaussian
from spine.redistricting import PERSONS
from spine.settings import Jurisdiction
from spine.top_down import exact_answers, query_group
from tasks.errors import Failed, Refused
from tasks.lifecycle.commit import mark_truth
from tasks.releases.release_database import ReleaseDatabase
from tasks.top_down import blocks
from tasks.top_down.blocks import BlockSource
from tasks.top_down.check.counts import check_figures, check_margins
from tasks.top_down.estimate.estimators import take_exact
from tasks.top_down.input.block_run import TopDownRun
from tasks.top_down.run_plan import SPINES, Estimator, check_allocation
from tasks.top_down.source import Branch
from tasks.top_down.spend import planned_spends

pytestmark = pytest.mark.usefixtures("untidy")
PURE = {"definition": "puredp", "budget": Fraction(20)}
MATRIX = [
    ("us", {"kind": "optimized"}, ("23", "46")),
    pytest.param("us", {"kind": "aian", "nation": True}, ("23", "46"), marks=pytest.mark.ci),
    pytest.param("us", {"kind": "optimized", **PURE, "nation": True}, ("23", "46"), marks=pytest.mark.ci),
    pytest.param("pr", {"kind": "optimized"}, ("72",), marks=pytest.mark.ci),
    pytest.param("pr", {"kind": "conventional", **PURE}, ("72",), marks=pytest.mark.ci),
    pytest.param("us", {"kind": "optimized", "estimator": "gls"}, ("23", "46"), marks=pytest.mark.ci),
]


Places = dict[tuple[str, ...], Path]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """A country for each set of states."""
    return {states: country(tmp_path_factory.mktemp("country"), states) for states in (("23", "46"), ("46",), ("72",))}


@pytest.fixture(scope="module")
def two_states(places: Places) -> Path:
    return places["23", "46"]


@pytest.fixture(scope="module")
def plain(two_states: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TopDownRun, Path]:
    """A run of production's settings and its staged release; both only to be read."""
    folder = tmp_path_factory.mktemp("plain")
    run = begin(folder, two_states, design())
    return run, finish(run, folder)


@pytest.mark.parametrize(("jurisdiction", "options", "states"), MATRIX)
def test_released_microdata_have_what_is_declared_in_the_input_files(
    tmp_path: Path, places: Places, jurisdiction: Jurisdiction, options: dict[str, Any], states: tuple[str, ...]
) -> None:
    """By nothing but these files; `das check` compares all other tables with the microdata."""
    data = places[states]
    staged = finish(begin(tmp_path, data, design(jurisdiction, **options)), tmp_path)
    persons, units = read(staged, "mdf/*_persons.parquet"), read(staged, "mdf/*_units.parquet")
    totals = dict(line.split(",") for line in (data / "states.csv").read_text().split()[1:])
    assert {state: str(n) for state, n in persons.groupby("TABBLKST").COUNT.sum().items()} == totals
    rows = [line.split(",") for line in (data / "quarters.csv").read_text().split()[1:]]
    declared = {row[0]: list(map(int, row[1:])) for row in rows}
    block = persons.TABBLKST + persons.TABBLKCOU + persons.TABTRACTCE + persons.TABBLK
    by_type = persons.groupby([block, "GQTYPE_PL"]).COUNT.sum()
    for (code, kind_of), number in by_type.items():
        assert declared[code][int(kind_of)] > 0  # nobody where there are no quarters of the type
        assert kind_of == "0" or number >= declared[code][int(kind_of)]
    for code, quarters in declared.items():  # no facility without a person
        assert all((code, str(t)) in by_type.index for t in range(1, 8) if quarters[t])
    assert not len(persons[(persons.GQTYPE_PL == "3") & (persons.VOTING_AGE == "1")])
    housing = units[units.RTYPE == "2"]
    of_block = (housing.TABBLKST + housing.TABBLKCOU + housing.TABTRACTCE + housing.TABBLK).to_numpy()
    assert housing.groupby(of_block).COUNT.sum().to_dict() == {c: q[0] for c, q in declared.items() if q[0]}


def in_cells(cell: int) -> Callable[[pa.Table], pa.Table]:
    """Return what puts the first count into another cell."""
    return lambda table: table.set_column(1, "cell", pa.array([cell, *table["cell"].to_pylist()[1:]], pa.int16()))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (in_cells(2 * 252), "blocks with records in the part that gq2 counts, where it is 0"),  # 252 cells a type
        (in_cells(3 * 252), "counts are of cells that nobody can be in"),  # minors in nursing facilities
        (lambda table: table.slice(0, 0), "blocks with fewer records than gq1 needs"),
    ],
)
def test_counts_that_are_not_those_declared_are_found(
    tmp_path: Path, plain: tuple[TopDownRun, Path], change: Callable[[pa.Table], pa.Table], fault: str
) -> None:
    copy = Path(shutil.copytree(plain[1], tmp_path / "release"))
    assert check_figures(copy, "persons", "Block", "23").faults == ()
    path = copy / "histograms/persons/Block/23.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    assert any(fault in found for found in check_figures(copy, "persons", "Block", "23").faults)


@pytest.mark.parametrize("states", [("46",), ("72",)])
def test_units_alone_need_no_persons(tmp_path: Path, places: Places, states: tuple[str, ...]) -> None:
    alone = design("pr" if states == ("72",) else "us", ("units",), kind="aian")
    staged = finish(begin(tmp_path, places[states], alone), tmp_path)
    assert {path.name for path in staged.glob("mdf/*")} == {f"{states[0]}_units.parquet"}
    manifest = json.loads((staged / "manifest.json").read_text())
    assert list(manifest["products"]) == ["units"]
    assert Fraction(manifest["spent"]["charged"]["exact"]) == alone.cost("units", nation=False)


def test_truth_is_the_input(tmp_path: Path, two_states: Path) -> None:
    run = TopDownRun(tmp_path / "runs" / "truth")
    run.create()
    made = design(microdata="text", measurements="none")
    place = release_truth(settings_with(tmp_path, two_states, made, "truth"), HERE)
    assert place is not None
    for product in ("persons", "units"):
        lines = (two_states / f"{product}.txt").read_text().splitlines()
        header = lines[0].split("|")
        given = sorted(lines[1:])
        released = []
        for path in sorted(place.glob(f"mdf/*_{product}.txt")):
            first, *rest = path.read_text().splitlines()
            at = [first.split("|").index(name) for name in header]
            released += ["|".join(row.split("|")[number] for number in at) for row in rest]
        assert sorted(released) == given
    manifest = json.loads((place / "manifest.json").read_text())
    assert "NOT_PRIVATE" in manifest
    assert manifest["spent"] is None
    assert (place.stat().st_mode & 0o077) == 0
    assert not run.path.exists()


def test_truth_never_stands_beside_a_secret(tmp_path: Path, two_states: Path) -> None:
    run = begin(tmp_path, two_states, design())
    with pytest.raises(Refused, match="may draw noise"):
        mark_truth(run, tmp_path, "us")
    (run / "TRUTH").touch()
    with pytest.raises(Failed, match="a run that may draw noise is never without it"):
        TopDownRun(run.path).answers(Branch("persons", "23"))
    (run / "TRUTH").unlink()
    with pytest.raises(Failed, match="only a truth takes exact counts"):
        take_exact(run, Branch("persons", "23"), "County")


@pytest.mark.parametrize("estimator", ["topdown", pytest.param("gls", marks=pytest.mark.slow)])
def test_release_does_not_depend_on_pieces_or_their_order(
    tmp_path: Path,
    two_states: Path,
    plain: tuple[TopDownRun, Path],
    monkeypatch: pytest.MonkeyPatch,
    estimator: Estimator,
) -> None:
    made, whole = design(estimator=estimator), plain[1]
    if estimator != "topdown":
        whole = finish(begin(tmp_path / "a", two_states, made), tmp_path / "a")

    class Backwards:
        count = 1

        def map(self, stage: str, run: TopDownRun, function, arguments):  # type: ignore[no-untyped-def]
            results = [function(run, *each) for each in reversed(list(arguments))][::-1]
            for piece in run.path.glob("noisy/*/*/**/0000000"):  # as of writers that were killed
                (piece.with_name(".0000000.left")).mkdir(exist_ok=True)
            return results

    one = tuple(descent._replace(size=1) for descent in BlockSource(tmp_path).descents)
    monkeypatch.setattr(BlockSource, "descents", one)
    monkeypatch.setattr(blocks, "ROWS", 3)
    apart = finish(begin(tmp_path / "b", two_states, made), tmp_path / "b", Backwards())  # type: ignore[arg-type]
    assert len(list((tmp_path / "b/runs/run/noisy/persons/23/Block").iterdir())) > 1
    assert digest(whole) == digest(apart)


def test_measurements_released_are_those_that_estimation_read(plain: tuple[TopDownRun, Path]) -> None:
    run, staged = plain
    measuring = TopDownRun(run.path).answers(Branch("persons", "46"))
    spine = measuring.plan.spine
    for level, name in enumerate(spine.levels):
        number = len(spine.starts[level])
        answers = measuring(level, 0, number).answers
        again = [measuring(level, at, at + 1).answers for at in range(number)]
        released = read(staged, f"measurements/persons/{name}/46.parquet")
        measured = np.flatnonzero(spine.shares[level])
        assert len(released) == len(measured) * len(answers)  # nothing of a geounit with the share 0
        for query, values in answers.items():
            rows = released[released["query"] == query]
            assert np.array_equal(np.stack(rows["value"].to_numpy()), values[measured])
            assert np.array_equal(np.concatenate([one[query] for one in again])[measured], values[measured])


def test_what_an_estimate_reads_is_measured_or_nothing(plain: tuple[TopDownRun, Path]) -> None:
    """The answers about parts that a geounit may have are those of the release; the others the same, or 0."""
    run, saved = TopDownRun(plain[0].path), 0
    full, needed = run.answers(Branch("persons", "46")), run.needed_answers(Branch("persons", "46"))
    for level in range(len(full.plan.spine.levels)):
        number = len(full.plan.spine.starts[level])
        read = needed(level, 0, number).answers
        for query, values in full(level, 0, number).answers.items():
            kept = (read[query] == values) | (read[query] == 0)
            assert kept.all()
            of_part = np.eye(len(full.plan.bounds.least), dtype=bool)[PERSONS.types]
            covers = np.zeros((values.shape[1], of_part.shape[1]), bool)
            np.logical_or.at(covers, query_group(PERSONS, query).coordinate, of_part)
            own = full.plan.bounds.allowed(level) @ covers.T
            assert np.array_equal(read[query][own], values[own])
            saved += np.count_nonzero(read[query] != values)
    assert saved


def test_measurements_are_unbiased_with_the_stated_variance(tmp_path: Path, two_states: Path) -> None:
    """The mean of n standardized draws is within 5 / sqrt(n), their mean square within 5 sqrt(2/n): 6e-7 each."""
    run = begin(tmp_path, two_states, design(("us"), ("persons",)), secret=bytes(range(32)))
    measuring = TopDownRun(run.path).answers(Branch("persons", "23"))
    plan, scaled = measuring.plan, []
    for level, name in enumerate(plan.spine.levels):
        number = len(plan.spine.starts[level])
        exact = TopDownRun(run.path).exact(Branch("persons", "23"), name)
        for query, noisy in measuring(level, 0, number).answers.items():
            difference = noisy - exact_answers(exact, query_group(PERSONS, query), 0, number)
            for row in np.flatnonzero(plan.spine.shares[level]).tolist():
                alpha = plan.allocation.queries[name][query]
                share = Fraction(int(plan.spine.shares[level][row]), plan.spine.denominator)
                sd = DiscreteGaussian(1 / (plan.allocation.budget * share * alpha)).variance() ** 0.5
                scaled.append(difference[row] / sd)
    drawn = np.concatenate(scaled)
    assert len(drawn) > 50_000
    assert abs(drawn.mean()) < 5 / len(drawn) ** 0.5
    assert abs((drawn**2).mean() - 1) < 5 * (2 / len(drawn)) ** 0.5


@pytest.mark.parametrize("budget", [Fraction(10**8), Fraction(1, 10**16)])
def test_a_budget_whose_noise_cannot_be_drawn_is_refused_before_it_is_charged(
    tmp_path: Path, places: Places, budget: Fraction
) -> None:
    with pytest.raises(Refused, match="cannot be drawn: "):
        begin(tmp_path, places["46",], design(budget=budget))
    assert not (tmp_path / "runs/run/authorization").exists()


@pytest.mark.parametrize(
    ("queries", "why"),
    [
        ({"total": Fraction(1)}, "must ask the query detailed in level Tract"),
        ({"detailed": Fraction(1)}, "must ask the query total in level Tract"),
        ({"total": Fraction(1, 2), "detailed": Fraction(1, 4), "age": Fraction(1, 4)}, "level Tract: query group age"),
    ],
)
def test_an_allocation_that_cannot_be_estimated_by_is_refused(queries: dict[str, Fraction], why: str) -> None:
    """Before a run begins: once it is charged it must be able to end."""
    asked = design()
    given, settings = asked.allocations["persons"], asked.settings["persons"]
    check_allocation("persons", given, settings)
    with pytest.raises(Refused, match=f"^own.json: .*{why}"):
        check_allocation("persons", replace(given, queries={**given.queries, "Tract": queries}), settings, "own.json")


def test_a_run_without_the_nation_does_not_pay_for_it() -> None:
    for kind in SPINES:
        asked = design(kind=kind)
        persons, units = asked.cost("persons", nation=False), asked.cost("units", nation=False)
        assert asked.cost("persons", nation=True) == Fraction(293764, 114921)
        assert persons == Fraction(293764, 114921) * (1 - Fraction(104, 4099))
        assert units == Fraction(11417641, 152349649) * (1 - Fraction(1, 205))
        whole, alone = planned_spends(asked).values()
        assert alone.charged == persons + units
        assert [*planned_spends(replace(asked, states=(44, 45))).values()] == [alone]
        assert [(each.key, each.figure) for each in alone.relations] == [
            ("both_replaced", persons + units),
            ("persons_replaced", persons),
            ("units_replaced", units),
            ("added_or_removed", None),
            ("moved", None),
        ]
        assert whole.charged == asked.cost("persons", nation=True) + asked.cost("units", nation=True)


@pytest.mark.ci
def test_margins_stand_beside_released_counts(tmp_path: Path, two_states: Path) -> None:
    """Of the estimator gls: the estimates add up, and no margin where none holds; `das check` compares the counts."""
    run = begin(tmp_path, two_states, design(estimator="gls", nation=True))
    staged = finish(run, tmp_path)
    levels = run.spine(Branch("persons", "23")).levels[:-1]
    declared = sum(int(line.split(",")[1]) for line in (two_states / "states.csv").read_text().split()[1:])
    for name in (*levels, *(f"tabulation/{level}" for level in ("County", "Tract", "Block_Group"))):
        margins = read(staged, f"margins/persons/{name}/*.parquet")
        assert margins[margins["count"] == "total"]["estimate"].sum() == pytest.approx(declared, abs=0.1)
        some = margins["count"].str.split(":").str[0].isin(["total", "race", "voting age by race"])
        assert margins[~some]["margin"].isna().all()
        assert name not in levels or margins[some]["margin"].notna().all()
    places = read(staged, "margins/persons/entities/place/*.parquet")
    assert places["estimate"].notna().all()
    assert places["margin"].isna().any()  # a place that cuts block groups
    assert not (staged / "margins/persons/Block").exists()
    assert (read(staged, "margins/units/County/*.parquet")["standard_error"] > 0).all()
    told = json.loads((staged / "manifest.json").read_text())["products"]["persons"]
    assert {row["of"] for row in told["margins"]["mean_standard_error"]} >= {*levels, "county", "place"}
    report = (staged / "report.html").read_text()
    assert told["margins"]["law"] in report
    shares = [Fraction(share) for share in told["shares"].values()]
    table = report.partition('aria-label="Budget by level"')[2]
    parts = re.findall(r'<td class="n">([0-9.]+)%</td>', table)[::2][: len(shares)]
    assert [float(part) for part in parts] == pytest.approx(
        [float(100 * share / sum(shares)) for share in shares], abs=0.5
    )
    path = staged / "margins/persons/County/23.parquet"
    table = pq.read_table(path)
    lost = np.flatnonzero(table["released"].to_numpy())[0]
    pq.write_table(table.take(np.delete(np.arange(len(table)), lost)), path)
    with ReleaseDatabase(staged) as database:
        manifest = json.loads((staged / "manifest.json").read_text())
        (found,) = (each for each in check_margins(database, staged, manifest, "persons") if each.faults)
    assert found.faults[0] == "state 23: 1 released counts are not sums of the released cells"
