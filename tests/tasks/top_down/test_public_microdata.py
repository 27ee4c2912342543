"""Published microdata becomes the inputs that it was made of, in every layout, and is marked and entered as public."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from dhca_inputs import HERE
from public_microdata import GEOGRAPHY, ppmf, records, write
from top_down_inputs import begin, country, design, finish, settings_with
from typer.testing import CliRunner

from flows.cli import app
from flows.execution.runner import InProcess
from flows.execution.truth import release_truth
from privacy.accounting.ledger import Account, Ledger
from tasks.inputs.marks import read_mark
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import read_manifest
from tasks.top_down.moved_blocks import MOVED, into_universe
from tasks.top_down.public.make_inputs import COUNTS, NO_GEOGRAPHY, NO_TYPES, Made, make_inputs

BLOCK = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK"]
PPMF = (
    [*BLOCK, "RTYPE", "GQTYPE", "QAGE", "CENHISP", "CENRACE", "GQTYPE_PL", "VOTING_AGE", *GEOGRAPHY],
    [*BLOCK, "RTYPE", "GQTYPE", "VACS", "HH_STATUS", *GEOGRAPHY],
)
MDF = ([*BLOCK, "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"], [*BLOCK, "RTYPE", "HH_STATUS"])
DHC = ([*BLOCK, "RTYPE", "GQTYPE", "QAGE", "CENHISP", "CENRACE"], [*BLOCK, "RTYPE", "GQTYPE", "VACS"])
LAYOUTS = {  # columns of persons and units, delimiter, ending
    "ppmf, commas": (*PPMF, ",", ".csv"),
    "ppmf, zip": (*PPMF, ",", ".zip"),
    "ppmf, parquet": (*PPMF, ",", ".parquet"),
    "redistricting mdf, pipes": (*MDF, "|", ".txt"),
    "dhc mdf, pipes, gzip": (*DHC, "|", ".txt.gz"),
}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return country(tmp_path_factory.mktemp("public"), ("23", "46"))


@pytest.fixture(scope="module")
def published(synthetic: Path) -> dict[str, pd.DataFrame]:
    return ppmf(synthetic)


def make(folder: Path, published: dict[str, pd.DataFrame], layout: str = "ppmf, commas", **options: object) -> Made:
    persons, units, delimiter, ending = LAYOUTS[layout]
    folder.mkdir(parents=True, exist_ok=True)
    sources = [
        str(write(published[name].sample(frac=1, random_state=1), folder / f"{name}{ending}", columns, delimiter))
        for name, columns in (("persons", persons), ("units", units))
    ]
    return make_inputs(sources, folder / "data", publisher="somebody", **options)  # type: ignore[arg-type]


def sorted_records(data: Path, product: str, columns: list[str]) -> pd.DataFrame:
    return records(data, product)[columns].sort_values(columns, ignore_index=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_are_what_the_microdata_was_made_of(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame], layout: str
) -> None:
    made = make(tmp_path, published, layout)
    for product, columns in zip(("persons", "units"), MDF, strict=True):
        found, expected = (sorted_records(data, product, columns) for data in (made.data, synthetic))
        pd.testing.assert_frame_equal(found, expected)
    assert (made.data / "states.csv").read_text() == (synthetic / "states.csv").read_text()
    found, expected = (pd.read_csv(data / "quarters.csv").sort_values("tabblk") for data in (made.data, synthetic))
    typed = "mdf" not in layout or "dhc" in layout
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected.reset_index(drop=True))
    assert (NO_TYPES in made.notes, NO_GEOGRAPHY in made.notes) == (not typed, "ppmf" not in layout)
    assert (made.data / "GRF-C.txt").exists() == ("ppmf" in layout)
    mark = read_mark(made.data)
    assert mark is not None
    assert (mark.name, mark.source) == ("PUBLIC", f"declared published by somebody: {', '.join(sources_of(layout))}")
    assert set(mark.digests) == {path.name for path in made.data.iterdir()} - {"PUBLIC.json"}


def sources_of(layout: str) -> list[str]:
    return [f"{name}{LAYOUTS[layout][3]}" for name in ("persons", "units")]


def test_states_are_chosen_while_reading_and_counts_are_the_records(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame]
) -> None:
    made = make(tmp_path, published, states=(46,), histograms=True)
    chosen = {name: table[table["TABBLKST"] == "46"] for name, table in published.items()}
    assert (made.states, made.persons, made.units) == (("46",), len(chosen["persons"]), len(chosen["units"]))
    counts = pq.read_table(made.data / COUNTS["persons"]).to_pandas()
    code = chosen["persons"][BLOCK].agg("".join, axis=1).astype(int)
    expected = code.value_counts().sort_index()
    assert counts.groupby("block")["count"].sum().to_dict() == expected.to_dict()
    assert not (made.data / "persons.parquet").exists()


def test_a_run_on_public_data_is_entered_and_not_charged(tmp_path: Path, published: dict[str, pd.DataFrame]) -> None:
    data = make(tmp_path, published).data
    run = begin(tmp_path, data, design(products=("persons",)))
    assert run.validated.mark == "PUBLIC"
    assert [mark for _, mark in Ledger(tmp_path / "ledger.sqlite").marked_runs().values()] == ["PUBLIC"]
    staged = finish(run, tmp_path)
    manifest = read_manifest(staged)
    assert "published, noisy database" in manifest["PUBLIC"]
    assert "SYNTHETIC" not in manifest
    assert manifest["PUBLIC"] in (staged / "report.html").read_text()


def test_records_that_were_charged_are_never_public(
    tmp_path: Path, synthetic: Path, published: dict[str, pd.DataFrame]
) -> None:
    """The mark covers other files than the confidential ones; the records of a state are known all the same."""
    confidential = tmp_path / "confidential"
    confidential.mkdir()
    for path in synthetic.iterdir():
        if path.suffix != ".json":
            (confidential / path.name).write_bytes(path.read_bytes())
    Ledger(tmp_path / "ledger.sqlite").open_account(Account("census", "zcdp", Fraction(10)))
    begin(tmp_path, confidential, design(), account="census")
    data = make(tmp_path / "marked", published).data
    settings = settings_with(tmp_path, data, design(), "truth")
    settings.directory.create()
    with pytest.raises(Refused, match="charged for as confidential before, so its mark as synthetic or public data is"):
        release_truth(settings, HERE)
    settings_with(tmp_path, data, design(), "another").directory.create()
    with pytest.raises(Refused, match="charged for as confidential before"):
        InProcess(settings_with(tmp_path, data, design(), "another"), HERE, before="measure").run()


BAD = {
    "no product": (lambda t: {"units": t["units"]}, "no record of persons"),
    "another table": (lambda t: t | {"persons": t["persons"].drop(columns="RTYPE")}, "it has no column RTYPE"),
    "a word": (lambda t: t | {"persons": t["persons"].assign(CENRACE="White")}, "holds something that is no number"),
    "a race": (lambda t: t | {"persons": t["persons"].assign(CENRACE="64")}, r"persons.csv, line 2: CENRACE is not 1"),
    "short rows": (lambda t: t | {"persons": t["persons"].assign(CENHISP='1"\n1,2"')}, "persons.csv"),
    "a blank": (lambda t: t | {"persons": t["persons"].assign(CENHISP="")}, "line 2: CENHISP is blank"),
    "types": (lambda t: t | {"persons": t["persons"].assign(RTYPE="5")}, "RTYPE contradicts GQTYPE_PL"),
    "units gone": (lambda t: t | {"units": t["units"].iloc[: len(t["units"]) // 2]}, "files of one release"),
}


@pytest.mark.parametrize("fault", BAD)
def test_what_is_no_microdata_is_refused_and_leaves_nothing(
    tmp_path: Path, published: dict[str, pd.DataFrame], fault: str
) -> None:
    change, words = BAD[fault]
    sources = []
    for name, table in change(dict(published)).items():
        columns = [column for column in table.columns if column != "EPNUM"]
        sources.append(str(write(table, tmp_path / f"{name}.csv", columns)))
    with pytest.raises(Refused, match=words):
        make_inputs(sources, tmp_path / "new/data", publisher="somebody")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["cut.csv.gz", "cut.zip", "cut.parquet", "folder", "missing.csv"])
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, published: dict[str, pd.DataFrame], kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif not kind.startswith("missing"):
        whole = write(published["persons"], path, PPMF[0]).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Refused, match=rf"{kind}.* (cannot be read|holds no file)"):
        make_inputs([str(path)], tmp_path / "data", publisher="somebody")


def test_the_command_asks_before_it_marks(tmp_path: Path, published: dict[str, pd.DataFrame]) -> None:
    sources = [str(write(table, tmp_path / f"{name}.csv")) for name, table in published.items()]
    words = ["tda", "public", *sources, str(tmp_path / "data")]
    asked = CliRunner().invoke(app, words)
    assert isinstance(asked.exception, Refused)
    assert "without a terminal, add --yes" in str(asked.exception)
    assert not (tmp_path / "data").exists()
    done = CliRunner().invoke(app, [*words, "--yes", "--only-state", "46"])
    assert done.exit_code == 0
    assert "blocks of state(s) 46, marked public" in done.output


def test_moved_blocks_go_back_only_where_the_universe_lacks_them() -> None:
    water, land = next(iter(MOVED.items()))
    blocks = np.array([land, land + 1])
    assert into_universe(blocks, np.array([water])).tolist() == [water, land + 1]
    assert into_universe(blocks, np.array([water, land])).tolist() == [land, land + 1]
    assert into_universe(blocks, np.array([land])).tolist() == [land, land + 1]
    assert len(set(MOVED.values())) == 15
