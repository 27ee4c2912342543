"""Totals, sex by age, suppression and release: the files against a naive implementation, then what noise adds."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from dhca_inputs import (
    BLOCKS,
    BUDGETS,
    PROPERTY,
    Inputs,
    configuration,
    countries,
    people,
    person,
    read_inputs,
    read_release,
    read_rows,
    stage_here,
    truth_here,
)
from dhca_naive import NATION_OR_STATE, release, tabulated
from hypothesis import given, settings
from numpy.typing import NDArray

from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from privacy.noise.margins import coverage, margin_of_error
from privacy.noise.query_noise import QueryNoise
from privacy.noise.randomness import RunSecret
from tasks.lifecycle import authorization
from tasks.releases.manifest import read_manifest
from tasks.safetab.domain import load_domain
from tasks.safetab.group_tables import final_folders, load_margins, rows_of_groups
from tasks.safetab.levels import Level
from tasks.safetab.persons import details
from tasks.safetab.persons.details import BY_AGE, CELLS_OF
from tasks.safetab.persons.suppression import PublishedGroups

pytestmark = pytest.mark.usefixtures("untidy")
T1_HEADER = "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n"
T2_HEADER = "REGION_ID|REGION_TYPE|ITERATION_CODE|AGESTART|AGEEND|SEX|COUNT\n"
NEVER, ALWAYS = 10**6, -(10**6)
DETAIL = [[NEVER] * 3, [ALWAYS, NEVER, NEVER], [ALWAYS, ALWAYS, NEVER], [ALWAYS] * 3]  # thresholds that force a detail
CELLS = list(CELLS_OF.values())
NATION = dict.fromkeys(BUDGETS[2:], 0)  # the nation's levels alone: a run takes as long as it has levels
NATION_AND_STATES = dict.fromkeys(BUDGETS[4:], 0)


def check_equal(place: Path, expected: Sequence[list[tuple[str, ...]]]) -> None:
    for table, rows in zip(("t1", "t2"), expected, strict=True):
        assert Counter(read_release(place, table)) == Counter(rows)


def thresholds(numbers: list[int]) -> dict[str, list[int]]:
    return dict.fromkeys(configuration()["thresholds_p"], numbers)


# Without noise


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"privacy_defn": "puredp", "zero_suppression_chance": 0}, marks=pytest.mark.ci),
        pytest.param({"allow_negative_counts": False, "state_filter_us": ["01"]}, marks=pytest.mark.slow),
        {"state_filter_us": ["11", "02"], "privacy_budget_p_level_2_county": 0, "privacy_budget_p_level_1_usa": 0},
        pytest.param({"thresholds_p": thresholds([0, 1, 2])}, marks=pytest.mark.slow),
        {"thresholds_p": thresholds([2, 4, 6]), "max_race_codes": 3},
        pytest.param({"thresholds_p": thresholds([5, 5, 5])}, marks=pytest.mark.slow),
        pytest.param(dict.fromkeys(BUDGETS, float("inf")), marks=pytest.mark.slow),
    ],
    ids=lambda changes: ",".join(map(str, changes))[:40],
)
def test_the_truth_is_the_naive_release(tmp_path: Path, changes: dict[str, Any]) -> None:
    inputs = Inputs(config=configuration(**changes), persons=people(300, blocks=BLOCKS[:7]))
    check_equal(truth_here(tmp_path, *inputs.write(tmp_path)), release(inputs, "us"))


def test_without_a_chance_zeros_are_published(tmp_path: Path) -> None:
    inputs = Inputs(persons=[person()])
    del inputs.config["zero_suppression_chance"]
    check_equal(truth_here(tmp_path, *inputs.write(tmp_path)), release(inputs, "us"))


def test_the_truth_of_puerto_rico(tmp_path: Path) -> None:
    inputs = Inputs(config=configuration(run_us=False, run_pr=True), persons=people(200, blocks=BLOCKS[6:]))
    check_equal(truth_here(tmp_path, *inputs.write(tmp_path), "pr"), release(inputs, "pr"))


@pytest.mark.slow
@given(inputs=countries())
@settings(PROPERTY, max_examples=25)
def test_the_truth_of_any_country(inputs: Inputs) -> None:
    with TemporaryDirectory() as folder:
        check_equal(truth_here(Path(folder), *inputs.write(Path(folder))), release(inputs, "us"))


def test_the_truth_equals_the_production_program(tmp_path: Path, das_data: Path) -> None:
    data = das_data / "truth-small"
    expected = [[tuple(row.values()) for row in read_rows(data / f"expected_{table}.txt")] for table in ("t1", "t2")]
    check_equal(truth_here(tmp_path, data / "params", data), expected)
    naive = release(read_inputs(data / "params", data), "us")
    assert [Counter(rows) for rows in naive] == [Counter(rows) for rows in expected]


@pytest.mark.ci
@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_toy_files(tmp_path: Path, das_data: Path, definition: str) -> None:
    toy = das_data / "toy"
    inputs = read_inputs(toy / f"input_dir_{definition}", toy)
    assert inputs.config["privacy_defn"] == definition
    check_equal(truth_here(tmp_path, toy / f"input_dir_{definition}", toy), release(inputs, "us"))
    _, place = stage_here(tmp_path, inputs)
    assert read_manifest(place)["spent"]["definition"] == definition


def test_the_truth_is_marked_and_has_no_margin(tmp_path: Path) -> None:
    place = truth_here(tmp_path, *Inputs(config=configuration(**NATION)).write(tmp_path))
    manifest = read_manifest(place)
    assert manifest["NOT_PRIVATE"]
    assert manifest["spent"] is None
    assert {m for path in (place / "parquet").rglob("*.parquet") for m in pq.read_table(path)["MOE"].to_pylist()} == {0}


# Formats


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Inputs, Path]:
    """A staged release with every detail in it."""
    inputs = Inputs(persons=people(400))
    return inputs, stage_here(tmp_path_factory.mktemp("noisy"), inputs)[1]


def level_of(inputs: Inputs, row: tuple[str, ...]) -> int:
    return next(level for level in (1, 2) if row[2] in tabulated(inputs, row[1], level))


def by_group(rows: list[tuple[str, ...]]) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    rows_of = defaultdict(list)
    for row in rows:
        rows_of[row[:3]].append(row[3:])
    return rows_of


def test_files(noisy: tuple[Inputs, Path]) -> None:
    _, place = noisy
    slugs = [f"{name}-{level}" for name in ("usa", "state", "county", "tract", "place", "aiannh") for level in (1, 2)]
    for table, header in (("t1", T1_HEADER), ("t2", T2_HEADER)):
        assert sorted(path.name for path in (place / table).iterdir()) == sorted(f"{slug}.csv" for slug in slugs)
        for slug in slugs:
            text = (place / table / f"{slug}.csv").read_bytes().decode("ascii")
            assert text.startswith(header)
            assert text.endswith("\n")
            assert '"' not in text
            assert "\r" not in text


def test_rows_are_sorted(noisy: tuple[Inputs, Path]) -> None:
    def order(row: tuple[str, ...]) -> tuple[Any, ...]:
        age = [] if len(row) == 4 else [-1 if row[3] == "*" else int(row[3]), row[5]]
        return (row[0], row[2], *age)

    for table in ("t1", "t2"):
        for path in (noisy[1] / table).iterdir():
            rows = [tuple(line.split("|")) for line in path.read_text().splitlines()[1:]]
            assert all(order(before) < order(after) for before, after in pairwise(rows))


def test_tables_have_a_row_for_each_cell_and_sex_that_add_up(noisy: tuple[Inputs, Path]) -> None:
    totals = {row[:3]: int(row[3]) for row in read_release(noisy[1], "t1")}
    tables = by_group(read_release(noisy[1], "t2"))
    assert {len(rows) for rows in tables.values()} == {CELLS_OF[name] + 2 for name in BY_AGE}
    for group, rows in tables.items():
        assert Counter(sex for start, end, sex, _ in rows if start == end == "*") == {"1": 1, "2": 1}
        for sex in "12":
            (whole,) = (int(count) for start, _, row_sex, count in rows if (start, row_sex) == ("*", sex))
            bins = [
                (int(start), int(end), int(count))
                for start, end, row_sex, count in rows
                if row_sex == sex and start != "*"
            ]
            assert whole == sum(count for *_, count in bins)
            assert bins[0][0] == 0
            assert bins[-1][1] == 115
            assert all(end + 1 == start for (_, end, _), (start, _, _) in pairwise(bins))
        assert totals[group] == sum(int(count) for start, _, _, count in rows if start == "*")


def test_total_only_groups_have_no_table(tmp_path: Path) -> None:
    config = configuration(thresholds_p=thresholds([ALWAYS] * 3), **NATION_AND_STATES)
    inputs = Inputs(config=config, persons=people(200))
    _, place = stage_here(tmp_path, inputs)
    total_only = {row[0] for row in (*inputs.race, *inputs.ethnicity) if row[-3] == "True"}
    assert total_only == {"2007", "2008", "3003"}
    totals = {row[:3] for row in read_release(place, "t1")}
    without = totals - {row[:3] for row in read_release(place, "t2")}
    assert {code for *_, code in without} == total_only
    assert {name for _, name, _ in without} == {"USA", "STATE"}


def test_every_group_of_the_domain_is_there(tmp_path: Path) -> None:
    """Regions without persons, groups without persons: all, where nothing is suppressed; none without budget."""
    inputs = Inputs(persons=[person()])
    inputs.config["privacy_budget_p_level_1_tract"] = 0
    del inputs.config["zero_suppression_chance"]
    _, place = stage_here(tmp_path, inputs)
    assert {row[:3] for row in read_release(place, "t1")} == {
        (region, name, code) for region, name, code, _ in release(inputs, "us")[0]
    }
    assert not (place / "t1/tract-1.csv").exists()


def test_a_region_type_without_regions_has_empty_files(tmp_path: Path) -> None:
    inputs = Inputs(blocks=[(*block[:4], "99999", "9999") for block in BLOCKS])
    _, place = stage_here(tmp_path, inputs)
    for slug in ("place-1", "aiannh-2"):
        assert (place / f"t1/{slug}.csv").read_text() == T1_HEADER
        assert (place / f"t2/{slug}.csv").read_text() == T2_HEADER
        assert pq.read_table(place / f"parquet/t1/{slug}.parquet").num_rows == 0


# Margins of error


def noise_law(inputs: Inputs, query: str) -> Law:
    """The noise by Algorithm 1, with stability 9 and a budget of 1 for every level."""
    gamma = Fraction(str(inputs.config["privacy_budget_p_stage_1_fraction"]))
    budget = {"total_only": Fraction(1), "stage_1": gamma, "stage_2": 1 - gamma}[query]
    if inputs.config["privacy_defn"] == "zcdp":
        return DiscreteGaussian(9 / (2 * budget))
    return TwoSidedGeometric(9 / budget)


@pytest.mark.parametrize("definition", ["zcdp", pytest.param("puredp", marks=pytest.mark.ci)])
def test_parquet_is_the_text_with_margins(tmp_path: Path, noisy: tuple[Inputs, Path], definition: str) -> None:
    inputs, place = noisy
    if inputs.config["privacy_defn"] != definition:
        inputs = Inputs(config=configuration(privacy_defn=definition), persons=people(400))
        _, place = stage_here(tmp_path, inputs)
    rows_of = {group: len(rows) for group, rows in by_group(read_release(place, "t2")).items()}
    for path in sorted((place / "parquet").rglob("*.parquet")):
        table = pq.read_table(path)
        text = place / path.relative_to(place / "parquet").with_suffix(".csv")
        margins = table["MOE"].to_pylist()
        rows = [tuple(map(str, row.values())) for row in table.drop_columns(["MOE"]).to_pylist()]
        assert rows == [tuple(line.split("|")) for line in text.read_text().splitlines()[1:]]
        for row, margin in zip(rows, margins, strict=True):
            cells = rows_of.get(row[:3], 3) - 2
            total_only = tabulated(inputs, row[1], level_of(inputs, row))[row[2]]["total_only"]
            law = noise_law(inputs, "total_only" if total_only else "stage_2")
            if len(row) == 7:
                cells = cells // 2 if row[3] == "*" else 1
            assert margin == margin_of_error(law, cells)


# Noise


def contents(place: Path) -> dict[str, bytes]:
    """All files of a release but those that hold the run's name."""
    skipped = ("manifest.json", "datapackage.json", "report.html", "README.txt")
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


def test_the_same_secret_gives_the_same_release_however_it_is_cut(
    tmp_path: Path, noisy: tuple[Inputs, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, first = noisy
    monkeypatch.setattr("tasks.safetab.domain.GROUPS_EACH", 20)
    monkeypatch.setattr("tasks.safetab.group_tables.GROUPS_AT_ONCE", 7)  # row groups of Parquet follow them
    second = stage_here(tmp_path, inputs, name="second", blocks_each=1)[1]
    one, other = contents(first), contents(second)
    assert one.keys() == other.keys()
    for name in one:
        if name.endswith(".parquet"):
            assert pq.read_table(first / name).equals(pq.read_table(second / name)), name
        else:
            assert one[name] == other[name], name


def test_noise_changes_with_data_and_configuration(tmp_path: Path) -> None:
    """One secret never answers two questions with the same noise."""
    errors = []
    for number, (persons, changes) in enumerate(
        [([person()], {}), ([person(QAGE="31")], {}), ([person()], {"reader": "cef"})]
    ):
        inputs = Inputs(config=configuration(**changes, **NATION), persons=persons)
        del inputs.config["zero_suppression_chance"]
        _, place = stage_here(tmp_path, inputs, name=str(number))
        errors.append([row[3] for row in read_release(place, "t1")])
    assert errors[0] != errors[1]
    assert errors[0] != errors[2]


def many_tracts(**changes: Any) -> Inputs:
    """250 tracts in which nobody lives: the counts are the noise."""
    blocks = [("01", "001", f"{number:06d}", "1000", "99999", "9999") for number in range(1, 251)]
    budgets = {key: 1 if key.endswith("_tract") else 0 for key in BUDGETS}
    outside = person(("11", "001", "000100", "1000", "50000", "9999"))
    config = configuration(**budgets, **changes)
    return Inputs(config=config, blocks=blocks, persons=[outside])


def within(observed: float, expected: float, deviation: float) -> bool:
    """Five standard deviations: a false alarm in about two million checks. The secrets are fixed besides."""
    return abs(observed - expected) <= 5 * deviation


@pytest.mark.parametrize(
    ("definition", "detail"),
    [
        ("zcdp", 3),
        ("puredp", 0),
        *(pytest.param(*each, marks=pytest.mark.ci) for each in (("zcdp", 0), ("zcdp", 1), ("zcdp", 2), ("puredp", 3))),
        *(pytest.param("puredp", detail, marks=pytest.mark.slow) for detail in (1, 2)),
    ],
)
def test_the_noise_has_the_law_that_the_manifest_states(tmp_path: Path, definition: str, detail: int) -> None:
    """That of totals, and of every cell by itself. No two cells share noise: by 5 deviations, for 1,035 pairs 6e-4."""
    inputs = many_tracts(privacy_defn=definition, thresholds_p=thresholds(DETAIL[detail]))
    del inputs.config["zero_suppression_chance"]
    _, place = stage_here(tmp_path, inputs)
    law = noise_law(inputs, "stage_2")
    for level, groups in ((1, 250 * 5), (2, 250 * 9)):
        codes = tabulated(inputs, "TRACT", level)
        result = read_manifest(place)["levels"][f"(TRACT, {level})"]["queries"]["stage_2"]
        assert result["variance"] == law.variance()
        t1 = [int(row[3]) for row in read_release(place, "t1") if row[2] in codes]
        assert len(t1) == groups
        variance = CELLS[detail] * law.variance()
        excess = 3 if definition == "puredp" else 0  # of one cell; about 1/cells as much for a sum
        spread = (2 + excess / CELLS[detail]) ** 0.5 * variance / groups**0.5
        assert within(fmean(t1), 0, (variance / groups) ** 0.5)
        assert within(fmean(count * count for count in t1), variance, spread)
        margin = margin_of_error(law, CELLS[detail])
        chance = float(coverage(law, margin, CELLS[detail]))
        assert chance >= 0.95
        inside = fmean(abs(count) <= margin for count in t1)
        assert within(inside, chance, (chance * (1 - chance) / groups) ** 0.5)
        t2 = by_group([row for row in read_release(place, "t2") if row[2] in codes])
        cells = np.array([[int(row[-1]) for row in rows if row[0] != "*"] for rows in t2.values()])
        assert cells.shape == ((groups, CELLS[detail]) if detail else (0,))
        for cell in cells.T:
            assert within(fmean(cell * cell), law.variance(), ((2 + excess) / groups) ** 0.5 * law.variance())
        assert not detail or np.abs(np.corrcoef(cells.T) - np.eye(CELLS[detail])).max() < 5 / groups**0.5


def test_stage_1_chooses_with_its_own_noise(tmp_path: Path) -> None:
    """With a threshold of 1 an empty group gets a table iff stage 1's noise is positive; its table has fresh noise."""
    inputs = many_tracts(thresholds_p=thresholds([1, NEVER, NEVER]))
    del inputs.config["zero_suppression_chance"]
    _, place = stage_here(tmp_path, inputs)
    groups = read_release(place, "t1")
    chosen = {row[:3] for row in read_release(place, "t2")}
    chance = 1 - float(noise_law(inputs, "stage_1").cdf(0))
    assert within(len(chosen) / len(groups), chance, (chance * (1 - chance) / len(groups)) ** 0.5)
    mean = fmean(int(row[3]) for row in groups if row[:3] in chosen)
    assert within(mean, 0, (8 * noise_law(inputs, "stage_2").variance() / len(chosen)) ** 0.5)


@pytest.mark.parametrize("definition", ["zcdp", pytest.param("puredp", marks=pytest.mark.ci)])
def test_zeros_are_suppressed_at_the_stated_chance(tmp_path: Path, definition: str) -> None:
    inputs = many_tracts(privacy_defn=definition, thresholds_p=thresholds(DETAIL[0]), zero_suppression_chance=0.9)
    _, place = stage_here(tmp_path, inputs)
    law = noise_law(inputs, "stage_2")
    limit = next(k for k in range(1000) if law.cdf(k) >= 0.9)
    assert {level["suppressed_up_to"] for level in read_manifest(place)["levels"].values()} == {limit}
    counts = [int(row[3]) for row in read_release(place, "t1")]
    assert min(counts) == limit + 1  # strictly above the threshold
    chance, groups = 1 - float(law.cdf(limit)), 250 * 14
    assert chance <= 0.1
    assert within(len(counts) / groups, chance, (chance * (1 - chance) / groups) ** 0.5)


def test_tables_and_nation_and_state_are_never_suppressed(tmp_path: Path) -> None:
    inputs = Inputs(persons=[person()], config=configuration(zero_suppression_chance=0.999999))
    inputs.config["thresholds_p"]["(PLACE, 2)"] = [ALWAYS] * 3
    _, place = stage_here(tmp_path, inputs)
    t1 = read_release(place, "t1")
    nation_and_state = [row[:3] for row in release(inputs, "us")[0] if row[1] in NATION_OR_STATE]
    assert {row[:3] for row in t1 if row[1] in NATION_OR_STATE} == set(nation_and_state)
    assert Counter(row[1] for row in t1)["PLACE"] >= 3 * 9
    assert any(int(row[3]) <= 0 for row in t1 if row[1] == "PLACE")


def test_negatives_are_clipped_after_all_sums(tmp_path: Path) -> None:
    """The same secret with and without clipping: each published count is the larger of 0 and what it was."""
    inputs = Inputs(persons=people(60))
    inputs.config["thresholds_p"] = thresholds([ALWAYS, 20, 40])
    del inputs.config["zero_suppression_chance"]
    run, place = stage_here(tmp_path, inputs, name="as-is")
    assert any(int(row[3]) < 0 for row in read_release(place, "t1"))
    for level in (Level("COUNTY", 2), Level("USA", 2), Level("TRACT", 1)):
        published = PublishedGroups.load(final_folders(run, level, PublishedGroups))
        margins = load_margins(run, level, PublishedGroups)
        for name, forms in PublishedGroups.TABLES.items():
            part = published.take(np.flatnonzero(np.isin(published.detail, list(forms))))
            as_is, clipped = (
                rows_of_groups(part, name, {}, margins, clip=clip)["COUNT"].to_numpy() for clip in (False, True)
            )
            assert (clipped == np.maximum(as_is, 0)).all()


def test_clipping_is_what_the_configuration_says(tmp_path: Path) -> None:
    changes = {"allow_negative_counts": False, "thresholds_p": thresholds([ALWAYS, 20, 40]), **NATION_AND_STATES}
    inputs = Inputs(config=configuration(**changes))
    _, place = stage_here(tmp_path, inputs)
    counts = [int(row[-1]) for table in ("t1", "t2") for row in read_release(place, table)]
    assert min(counts) == 0


# The manifest


def test_the_manifest_counts_what_is_published(noisy: tuple[Inputs, Path]) -> None:
    inputs, place = noisy
    manifest = json.loads((place / "manifest.json").read_text())
    tables = {group: len(rows) for group, rows in by_group(read_release(place, "t2")).items()}
    names = {CELLS_OF[name] + 2: name for name in BY_AGE}
    for name, result in manifest["levels"].items():
        region_type, level = name.strip("()").split(", ")
        rows = [
            row for row in read_release(place, "t1") if (row[1], str(level_of(inputs, row))) == (region_type, level)
        ]
        details = Counter(names.get(tables.get(row[:3], 0), "total") for row in rows)
        total_only = sum(tabulated(inputs, region_type, int(level))[row[2]]["total_only"] for row in rows)
        details += Counter(total=-total_only, total_only=total_only)
        published = Counter(result["groups_published"])
        assert +published == +details
    spent = manifest["spent"]
    assert [(each["relation"], each["exact"]) for each in spent["relations"]] == [
        ("added_or_removed", "12"),
        ("replaced", "24"),
    ]


def test_the_report_names_the_states_that_have_blocks_and_the_part_of_each_level(noisy: tuple[Inputs, Path]) -> None:
    inputs, place = noisy
    report = (place / "report.html").read_text()
    assert "<h1>Detailed DHC-A, Alabama, Alaska</h1>" in report
    levels = json.loads((place / "manifest.json").read_text())["levels"]
    assert {inputs.config[name] for name in BUDGETS[:12]} == {1}
    assert report.count('<td class="n">1</td><td class="n">8.3%</td>') == len(levels) == 12
    assert "e<sup>epsilon</sup> and a further delta" in report


def test_a_group_answers_what_its_budget_pays_for_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TotalOnly group one query; any other its stage-1 total and one table. No noise is drawn for anything else."""
    drawn: dict[str, Counter[int]] = {}

    class Watched(QueryNoise):
        def __init__(self, law: Law, secret: RunSecret, *, query: str, **digests: str) -> None:
            super().__init__(law, secret, query=query, **digests)
            self.asked = drawn.setdefault(query, Counter())

        def draw(self, rows: NDArray[np.int64], width: int = 1) -> NDArray[np.int64]:
            self.asked.update(rows.tolist())
            return super().draw(rows, width)

        def draw_run(self, start: int, stop: int, asked: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
            assert asked is not None
            self.asked.update((start + np.flatnonzero(asked)).tolist())
            return super().draw_run(start, stop, asked)

    monkeypatch.setattr(authorization, "QueryNoise", Watched)
    run, _ = stage_here(tmp_path, Inputs(config=configuration(**NATION_AND_STATES)))
    kinds = Counter[bool]()
    for level in run.parameters.configuration.levels("us"):
        domain = load_domain(run, level)
        for group in range(domain.groups):
            total_only = bool(domain.total_only[group % len(domain.iterations)])
            answers = {
                query.split("/", 1)[1]: times[group]
                for query, times in drawn.items()
                if query.startswith(f"{level}/") and times[group]
            }
            stages = sorted(query.split("/")[0] for query in answers)
            assert stages == (["total_only"] if total_only else ["stage_1", "stage_2"])
            assert set(answers.values()) == {1}
            kinds[total_only] += 1
    assert min(kinds[True], kinds[False]) > 0


@pytest.mark.parametrize("ages", ["(0, 16, 45, 65)", "(5, 18, 45, 65)", "(0, 45, 18, 65)"])
def test_ages_whose_cells_do_not_add_up_fail_at_import_and_widths_follow_from_ages(ages: str) -> None:
    source, first = Path(details.__file__).read_text(encoding="utf-8"), f"AGE4: {details.AGES[details.AGE4]}"
    assert first in source
    names: dict[str, Any] = {"__name__": "details"}
    exec(compile(source.replace(first, "AGE4: (0, 18, 45, 65, 85)"), "details.py", "exec"), names)
    assert names["WIDTHS"].tolist() == [1, 10, *details.WIDTHS.tolist()[details.AGE9 :]]
    with pytest.raises(ValueError, match="must begin at 0, rise"):
        exec(compile(source.replace(first, f"AGE4: {ages}"), "details.py", "exec"), {"__name__": "details"})
