"""The steps of a made-up population: draws by address, sums kept exactly, laws, and the same people in every system."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from block_files import geographic_header, write_zip
from scipy.stats import chi2

from spine.redistricting import PERSON_AXES, PERSON_TABLES
from tasks.errors import Refused
from tasks.geography.blocks.pl94 import SEGMENTS
from tasks.s_dhc.records import KINDS
from tasks.safetab.households.household import HOUSEHOLD
from tasks.safetab.persons.person import PERSON
from tasks.synth.draws import Draws, Purpose, philox
from tasks.synth.population.quarters import repair_quarters
from tasks.synth.population.sizes import LARGEST, base_law, draw_sizes, fit_law, mix
from tasks.synth.report import FIGURES
from tasks.synth.synthesize import synthesize_blocks, synthesize_example, synthesize_nation
from tasks.synth.write import Options
from tasks.synth.writers.systems import SYSTEMS
from tasks.top_down.input.records import COLUMNS

EVERY = {name: name for name in SYSTEMS}


def test_draws_are_philox_by_address() -> None:
    """The published vectors (Random123, kat_vectors); a tract's draws depend on no other tract."""
    zero, ones = np.uint64(0), np.uint64(0xFFFFFFFF)
    assert [int(word) for word in philox(*[zero] * 6)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(word) for word in philox(*[ones] * 6)] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    tracts = np.array([[44001, 100], [44001, 200], [44003, 100]], np.uint64)
    both = Draws(7, tracts).uniform(Purpose.AGE, np.repeat([0, 1, 2], 1001))
    alone = Draws(7, tracts[1:2]).uniform(Purpose.AGE, np.zeros(1001, np.int64))
    assert np.array_equal(both[1001:2002], alone)
    assert len(np.unique(both)) == len(both)
    for seed, purpose in ((8, Purpose.AGE), (7 + 2**32, Purpose.AGE), (7, Purpose.SEX)):
        assert not np.isin(Draws(seed, tracts[:1]).uniform(purpose, np.zeros(9, np.int64)), both).any()


def drawn_sizes(households: int, persons: int, blocks: int) -> np.ndarray:
    """Sizes of that many blocks, (blocks, households)."""
    law, rows = base_law(), blocks * households
    draws, one = Draws(5, np.array([[44001, 100]], np.uint64)), np.zeros(rows, np.int64)
    sizes, full = np.zeros(rows, np.int64), np.full(blocks, households)
    uniform = [draws.uniform(purpose, one) for purpose in (Purpose.SIZE, Purpose.VACANCY)]
    first = np.arange(blocks) * households
    draw_sizes(first, full, full, np.full(blocks, persons), *uniform, law, sizes)
    return sizes.reshape(blocks, households)


@pytest.mark.parametrize(("households", "persons", "blocks"), [(3, 8, 20_000), (20, 60, 4000), (200, 515, 400)])
def test_sizes_are_independent_given_their_sum(households: int, persons: int, blocks: int) -> None:
    """Against blocks of independent sizes of which those with another sum are rejected: sizes, and largest of a block.

    Both have fixed draws; each of the nine tests has a false-alarm rate of 1e-4.
    """
    drawn = drawn_sizes(households, persons, blocks)
    assert (drawn.sum(axis=1) == persons).all()
    law = base_law().weights / 2.0 ** np.arange(LARGEST + 1)
    random, kept = np.random.default_rng(3), []
    while sum(map(len, kept)) < blocks:
        many = random.choice(LARGEST + 1, (400_000 // households, households), p=law / law.sum())
        kept.append(many[many.sum(axis=1) == persons])
    rejected = np.concatenate(kept)[:blocks]
    for one, other in ((drawn[:, 0], rejected[:, 0]), (drawn[:, -1], rejected[:, 0]), (drawn.max(1), rejected.max(1))):
        counts = np.array([np.bincount(sizes, minlength=LARGEST + 1) for sizes in (one, other)])
        common = counts.sum(axis=0) >= 40
        counts = np.column_stack([counts[:, common], counts[:, ~common].sum(axis=1)])
        counts = counts[:, counts.sum(axis=0) > 0]
        expected = counts.sum(axis=0) / 2
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert statistic < chi2.isf(1e-4, max(counts.shape[1] - 1, 1))


def test_a_law_fitted_to_spread_blocks_has_the_national_shape() -> None:
    random = np.random.default_rng(2)
    occupied = random.integers(1, 60, 4000)
    persons = np.maximum(occupied, np.rint(occupied * random.normal(2.549, 0.7, 4000))).astype(np.int64)

    def ones(law: object) -> float:
        each = np.ones(len(occupied), np.int64)
        return float(mix(occupied, persons, each, law)[1])  # type: ignore[attr-defined]

    assert ones(base_law()) > 0.29
    assert 0.266 < ones(fit_law(occupied, persons)) < 0.276, "the blocks have more persons than the nation"


def test_contradictions_of_published_blocks_are_repaired_and_counted() -> None:
    """Too many in quarters; nobody left for three units; sixteen persons need two; more occupied than there are."""
    population, one_type = np.array([5, 3, 16, 9, 0]), np.zeros((5, 7), np.int64)
    one_type[0, 4], one_type[1, 2] = 8, 3
    units, occupied = np.array([4, 3, 1, 2, 2]), np.array([2, 3, 1, 4, 0])
    quarters, repaired = repair_quarters(population, one_type, units, occupied)
    assert (quarters.residents.sum(axis=1) == population).all()
    assert quarters.occupied.tolist() == [0, 0, 2, 4, 0]
    assert quarters.facilities[:, 0].tolist() == [4, 3, 2, 4, 2]
    assert list(repaired.values()) == [1, 2, 1, 2]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, written for every system."""
    out = tmp_path_factory.mktemp("every") / "out"
    synthesize_example(out, Options(seed=4, places=EVERY, report=True))
    return out


def table(path: Path) -> pd.DataFrame:
    separator = "," if path.suffix == ".csv" else "|"
    return pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)


BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]


def test_files_have_the_columns_that_the_systems_read(everything: Path) -> None:
    expected = {
        "detailed-dhca/person-records.txt": tuple(PERSON.fields),
        "ddhcb/household-records.txt": tuple(HOUSEHOLD.fields),
        **{f"sdhc/{name}.csv": tuple(kind.fields) for name, kind in KINDS.items()},
        **{f"tda/{product}.txt": columns for product, columns in COLUMNS.items()},
    }
    assert {file: tuple(table(everything / file).columns) for file in expected} == expected


def test_the_example_is_as_plausible_as_so_few_persons_can_be(everything: Path) -> None:
    """Quarters are 2 to 3% of it in each state, some of every type; its groups have thresholds of their size."""
    persons = table(everything / "tda/persons.txt")
    share = (persons["GQTYPE_PL"] != "0").groupby(persons["TABBLKST"]).mean()
    assert share.between(0.015, 0.035).all()
    assert set(persons["GQTYPE_PL"]) == set("01234567")
    households, config = (
        json.loads((everything / f"params/{name}.json").read_text()) for name in ("config-ddhcb", "config")
    )
    assert households["thresholds_h_t3"] == config["thresholds_p"]


def test_every_system_has_the_same_people(everything: Path) -> None:
    """By block: persons by age and race, households by type and tenure, units, and quarters."""
    persons = table(everything / "detailed-dhca/person-records.txt")
    sdhc, units, geo = (table(everything / f"sdhc/{name}.csv") for name in ("persons", "units", "geo"))
    top_down, living = table(everything / "tda/persons.txt"), table(everything / "tda/units.txt")
    households = table(everything / "ddhcb/household-records.txt")
    assert (units["MAFID"] == geo["MAFID"]).all()
    assert units["MAFID"].is_unique
    placed = sdhc.merge(geo, on="MAFID")
    keys = [*BLOCK, "CENRACE", "minor"]
    counts = [
        frame.assign(minor=minor).groupby(keys).size()
        for frame, minor in (
            (persons, persons["QAGE"].astype(int) < 18),
            (placed, placed["QAGE"].astype(int) < 18),
            (top_down, top_down["VOTING_AGE"] == "1"),
        )
    ]
    assert counts[0].equals(counts[1])
    assert counts[0].equals(counts[2])
    assert placed.groupby([*BLOCK, "CENHISP"]).size().equals(top_down.groupby([*BLOCK, "CENHISP"]).size())
    lived_in = units.merge(geo, on="MAFID")
    lived_in = lived_in[lived_in["HHT"] != "0"]
    lived_in["HOUSEHOLD_TYPE"] = lived_in["HHT"].map({"6": "4", "7": "5"}).fillna(lived_in["HHT"])
    of_household = [*BLOCK, "HOUSEHOLD_TYPE", "TEN", "HHRACE"]
    assert households.groupby(of_household).size().equals(lived_in.groupby(of_household).size())
    assert households.groupby(BLOCK).size().equals(living[living["HH_STATUS"] == "1"].groupby(BLOCK).size())
    assert persons[persons["HOUSEHOLDER"] == "True"].groupby(BLOCK).size().equals(households.groupby(BLOCK).size())
    quarters = table(everything / "tda/quarters.csv").set_index("tabblk").astype(int)
    assert quarters["hu"].sum() == (living["RTYPE"] == "2").sum()
    assert quarters.sum(axis=1).sum() == len(units)


@pytest.mark.long
def test_recodes_are_those_of_the_persons(everything: Path) -> None:
    """HHT, HHT2, CPLT, NPF and the householder's race, household by household, as they are defined."""
    persons, units = (table(everything / f"sdhc/{name}.csv") for name in ("persons", "units"))
    sexes = table(everything / "detailed-dhca/person-records.txt")["QSEX"]  # in the same order
    members = dict(iter(persons.assign(sex=sexes).groupby("MAFID")))
    for unit in units.itertuples():
        rows = members.get(unit.MAFID)
        assert int(unit.FINAL_POP) == (0 if rows is None else len(rows))
        if rows is None or unit.RTYPE == "4":
            assert (unit.HHT, unit.HHT2, unit.CPLT, unit.TEN, unit.HHRACE) == ("0", "00", "0", "0", "00")
            continue
        roles = rows["RELSHIP"].astype(int)
        head = rows[roles == 20]
        assert len(head) == 1
        female, relatives = head["sex"].iloc[0] == "2", roles.isin([21, 23, *range(25, 34)])
        child = (roles.isin([25, 26, 27]) & (rows["QAGE"].astype(int) < 18)).any()
        couple = next((code for role, code in ((21, 1), (23, 2), (22, 3), (24, 4)) if (roles == role).any()), 5)
        if couple < 3:
            hht, hht2 = 1, 1 if child else 2
        else:
            hht = 2 + female if relatives.any() else (4 if len(rows) == 1 else 5) + 2 * female
            alone, kin = len(rows) == 1, relatives.any()
            hht2 = (5 if female else 9) + (0 if alone else 1 if child else 2 if kin else 3)
        if couple in (3, 4):
            hht2 = 3 if child else 4
        assert (int(unit.HHT), int(unit.HHT2), int(unit.CPLT)) == (hht, hht2, couple)
        assert int(unit.NPF) == (relatives.sum() + 1 if relatives.any() else 0)
        assert (head["CENRACE"].iloc[0], head["CENHISP"].iloc[0]) == (unit.HHRACE, unit.HHSPAN)
        assert unit.TEN in "1234"
        if couple < 5:
            partner = rows[roles.isin([21, 22, 23, 24])]
            assert (partner["sex"].iloc[0] == head["sex"].iloc[0]) == (couple in (2, 4))


def test_text_and_parquet_hold_the_same_records(everything: Path, tmp_path: Path) -> None:
    synthesize_example(tmp_path / "out", Options(seed=4, places=EVERY, form="parquet", threads=3))
    for name, system in SYSTEMS.items():
        for each in system.tables:
            text = table(everything / name / f"{each.name}.{each.extension}")
            if not each.always_text:
                stored = pd.read_parquet(tmp_path / "out" / name / f"{each.name}.parquet").astype(str)
                assert stored.equals(text.astype(str)), each.name


def segments(table: pd.DataFrame, counts: np.ndarray, units: np.ndarray) -> dict[str, bytes]:
    """P.L. 94-171 files of blocks with these persons, by kind, voting age, Hispanic and race, and (all, occupied)."""
    cells = {
        cell.name: counts[
            np.ix_(range(len(counts)), *(sorted(cell.where.get(axis.name, range(len(axis)))) for axis in PERSON_AXES))
        ].sum(axis=(1, 2, 3, 4))
        for table_cells in PERSON_TABLES.values()
        for cell in table_cells
    }
    cells |= {"H0010001": units[:, 0], "H0010002": units[:, 1], "H0010003": units[:, 0] - units[:, 1]}
    files = {"wigeo2020.pl": geographic_header(table, "wi")}
    for number, names in SEGMENTS.items():
        rows = [
            "|".join(
                [
                    "PLST",
                    "WI",
                    "000",
                    f"{number:02d}",
                    f"{10_000 + row:07d}",
                    *(str(cells[name][row]) for name in names),
                ]
            )
            for row in range(len(table))
        ]
        files[f"wi0000{number}2020.pl"] = ("\n".join(rows) + "\n").encode()
    return files


@pytest.mark.ci
def test_published_tables_are_kept_to_the_person(tmp_path: Path, everything: Path) -> None:
    """P1 to P5 of every block exactly; H1 but where it contradicts the persons; a false table is refused."""
    random = np.random.default_rng(8)
    rows = [("55", "001", f"000{1 + i // 30}00", f"1{i % 30:03d}", "1") for i in range(90)]
    grf = pd.DataFrame(rows, columns=[*BLOCK, "TABBLKGRPCE"])
    grf = grf.assign(COUSUBFP="99999", PLACEFP="99999", AIANNHCE="9999", SDUNILEA="99999", COUSUBFS="A", PLACEFS="A")
    counts = np.zeros((90, 8, 2, 2, 63), np.int64)
    for cell in ((0, 1, 0, 0), (0, 1, 0, 1), (0, 0, 0, 0), (0, 0, 1, 5), (0, 1, 1, 9), (0, 1, 0, 62)):
        counts[(slice(None), *cell)] = random.integers(0, 12, 90)
    counts[:20, 5, 1, 0, 3], counts[10, 2, 0, 0, 0], counts[30] = 9, 4, 0
    counts[31, :, 1] = 0  # a block of minors only
    counts[41, 0, 1, 0, 0] += 40
    counts[42] = 0
    counts[42, 5, 1, 0, 0] = 7
    population = counts.sum(axis=(1, 2, 3, 4))
    households = counts[:, 0].sum(axis=(1, 2, 3))
    occupied = np.minimum(-(-households // 2), households)
    # More than persons; one for more than 15; some where nobody is, or nobody but in quarters.
    occupied[40], occupied[41], occupied[30], occupied[42] = households[40] + 5, 1, 2, 1
    grf["POP"], grf["HU"] = population.astype(str), (occupied + 1).astype(str)
    files = segments(grf, counts, np.column_stack([occupied + 1, occupied]))
    source = write_zip(tmp_path / "wi2020.pl.zip", files)
    options = Options(places={"tda": "tda", "detailed-dhca": "dhca"})
    params = shutil.copytree(everything / "params", tmp_path / "params")
    config = (params / "config.json").read_text()
    (params / "config.json").write_text(config.replace('"max_race_codes": 4', '"max_race_codes": 6'))
    made = synthesize_blocks(source, params, tmp_path / "out", options)
    repaired = made.mark.facts["population"]["repaired"]
    few = -(-households[41] // 15)
    assert repaired == {
        "more occupied units than persons in them": 3,
        "too few occupied units for the persons in them": 1,
        "fewer units than occupied ones": int(few > 2),
    }
    persons = table(tmp_path / "out/tda/persons.txt")
    row = pd.Series(range(90), index=pd.MultiIndex.from_frame(grf[BLOCK]))
    at = (row[pd.MultiIndex.from_frame(persons[BLOCK])].to_numpy(), persons["GQTYPE_PL"].astype(int))
    made_counts = np.zeros_like(counts)
    others = (
        persons["VOTING_AGE"].astype(int) - 1,
        persons["CENHISP"].astype(int) - 1,
        persons["CENRACE"].astype(int) - 1,
    )
    np.add.at(made_counts, (*at, *others), 1)
    assert (made_counts.sum(axis=1) == counts.sum(axis=1)).all(), "P1 to P4"
    assert (made_counts.sum(axis=(2, 3, 4)) == counts.sum(axis=(2, 3, 4))).all(), "P5"
    units = table(tmp_path / "out/tda/units.txt")
    lived_in = units[units["HH_STATUS"] == "1"].groupby(BLOCK).size().reindex(row.index).fillna(0)
    expected = occupied.copy()
    expected[[30, 40, 41, 42]] = 0, households[40], few, 0
    assert (lived_in.to_numpy() == expected).all()
    assert made.mark.facts["population"]["given"].startswith("populations of blocks by voting age")
    counts[3, 0, 1, 0, 0] += 1  # and POP100 as it was
    write_zip(source, segments(grf, counts, np.column_stack([occupied + 1, occupied])))
    with pytest.raises(Refused, match="tables P1 to P4 of block 550010001001003 contradict"):
        synthesize_blocks(source, params, tmp_path / "again", options)


@pytest.mark.long
def test_published_persons_share_households_as_drawn_ones_do(das_data: Path, tmp_path: Path) -> None:
    """A state's drawn persons, published as P.L. 94-171 tables and made again: of one race and ethnicity as often."""
    shares, production = das_data / "ddhca_published_national.csv.gz", das_data / "params-2020-production"
    options = Options(places={"tda": "tda"}, report=True)
    synthesize_nation(production, tmp_path / "drawn", options, shares, states=["56"])
    grf = table(tmp_path / "drawn/tda/GRF-C.txt")[:6000]
    persons, units = (table(tmp_path / f"drawn/tda/{name}.txt").merge(grf[BLOCK]) for name in ("persons", "units"))
    row = pd.Series(range(len(grf)), index=pd.MultiIndex.from_frame(grf[BLOCK]))
    cells = persons[["GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"]].astype(int).to_numpy() - (0, 1, 1, 1)
    counts = np.zeros((len(grf), 8, 2, 2, 63), np.int16)
    np.add.at(counts, (row[pd.MultiIndex.from_frame(persons[BLOCK])].to_numpy(), *cells.T), 1)
    lived_in = [units[units["HH_STATUS"].isin(codes)] for codes in (["1", "2"], ["1"])]
    places = [row[pd.MultiIndex.from_frame(houses[BLOCK])].to_numpy() for houses in lived_in]
    numbers = np.column_stack([np.bincount(place, minlength=len(grf)) for place in places])
    grf["POP"], grf["HU"] = counts.sum(axis=(1, 2, 3, 4)).astype(str), numbers[:, 0].astype(str)
    source = write_zip(tmp_path / "wi2020.pl.zip", segments(grf, counts, numbers))
    made = synthesize_blocks(source, production, tmp_path / "made", options, shares)
    assert made.mark.facts["population"]["repaired"] == {}
    shared = [figure for figure in FIGURES if "of two and more" in figure.words]
    assert {figure.words: figure.value(made.counts) for figure in shared if not figure.fits(made.counts)} == {}


@pytest.mark.long
def test_a_state_is_plausible(das_data: Path, tmp_path: Path) -> None:
    options = Options(form="parquet", report=True)
    production = das_data / "params-2020-production"
    made = synthesize_nation(
        production, tmp_path / "out", options, das_data / "ddhca_published_national.csv.gz", states=["10", "44", "56"]
    )
    assert not {figure.words: figure.value(made.counts) for figure in FIGURES if not figure.fits(made.counts)}
